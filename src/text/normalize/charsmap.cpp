#include "text/normalize/charsmap.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::text {
namespace {

constexpr std::size_t kUnitBytes = 4;
constexpr std::size_t kMaxReplacementBytes = 1024;

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kUnitBytes; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

std::uint32_t label(std::uint32_t unit) {
  return unit & 0x800000ffu;
}
bool has_leaf(std::uint32_t unit) {
  return (unit >> 8 & 1u) != 0;
}
std::uint32_t offset(std::uint32_t unit) {
  return (unit >> 10) << ((unit & 0x200u) >> 6);
}
std::uint32_t leaf_value(std::uint32_t unit) {
  return unit & 0x7fffffffu;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view what) {
  core::require(bytes.size() > kUnitBytes, core::ErrorKind::kInvalidModel,
                "{}: precompiled_charsmap has {} bytes, too few for its header", what,
                bytes.size());
  const std::size_t trie_bytes = read_u32(bytes, 0);
  core::require(trie_bytes % kUnitBytes == 0 && trie_bytes >= kUnitBytes &&
                    trie_bytes < bytes.size() - kUnitBytes,
                core::ErrorKind::kInvalidModel,
                "{}: precompiled_charsmap says that its trie has {} bytes, of {} in all", what,
                trie_bytes, bytes.size());
  units_.resize(trie_bytes / kUnitBytes);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    units_[i] = read_u32(bytes, kUnitBytes * (i + 1));
  }
  replacements_ = bytes.substr(kUnitBytes + trie_bytes);
  for (std::size_t at = 0; at < replacements_.size();) {
    const std::size_t end = std::min(replacements_.find('\0', at), replacements_.size());
    core::require(end - at <= kMaxReplacementBytes, core::ErrorKind::kInvalidModel,
                  "{}: precompiled_charsmap has a replacement of {} bytes, more than {}", what,
                  end - at, kMaxReplacementBytes);
    at = end + 1;
  }
}

Charsmap::Match Charsmap::match(std::size_t bytes, std::uint32_t value) const {
  const std::size_t end = replacements_.find('\0', value);
  const std::size_t length = (end == std::string::npos ? replacements_.size() : end) - value;
  return {bytes, std::string_view(replacements_).substr(value, length)};
}

// Calls visit(bytes, value) for each key that is a prefix of the text, shortest first, until it
// returns false.
template <typename Visit>
void Charsmap::walk(std::string_view text, Visit visit) const {
  std::uint32_t node = offset(units_[0]);
  const std::size_t length = std::min(text.size(), kMaxKeyBytes);
  for (std::size_t i = 0; i < length && text[i] != '\0'; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) {
      return;
    }
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (node >= units_.size()) {
      return;
    }
    if (has_leaf(unit)) {
      const std::uint32_t value = leaf_value(units_[node]);
      if (value >= replacements_.size() || !visit(i + 1, value)) {
        return;
      }
    }
  }
}

std::optional<Charsmap::Match> Charsmap::longest(std::string_view text) const {
  std::optional<Match> found;
  walk(text, [&](std::size_t bytes, std::uint32_t value) {
    found = match(bytes, value);
    return true;
  });
  return found;
}

std::optional<Charsmap::Match> Charsmap::shortest(std::string_view text) const {
  std::optional<Match> found;
  walk(text, [&](std::size_t bytes, std::uint32_t value) {
    found = match(bytes, value);
    return false;
  });
  return found;
}

}  // namespace nibble::text
