#include "core/printable.h"

#include <algorithm>

namespace nibble::core {
namespace {

constexpr std::size_t kEscapeBytes = 4;  // "\\x0a"

// Length of the UTF-8 sequence that starts at text[at], 0 when it is not valid.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  std::size_t length = 0;
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xc2 && lead < 0xe0) {
    length = 2;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    length = 3;
  } else if (lead >= 0xf0 && lead < 0xf5) {
    length = 4;
  }
  if (length == 0 || at + length > text.size()) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  const bool overlong =
      (lead == 0xe0 && byte(at + 1) < 0xa0) || (lead == 0xf0 && byte(at + 1) < 0x90);
  const bool surrogate = lead == 0xed && byte(at + 1) >= 0xa0;
  const bool too_large = lead == 0xf4 && byte(at + 1) >= 0x90;
  const bool c1_control = lead == 0xc2 && byte(at + 1) < 0xa0;
  return overlong || surrogate || too_large || c1_control ? 0 : length;
}

}  // namespace

std::string Printable::str() const {
  std::string out;
  std::size_t at = 0;
  while (at < text_.size()) {
    const auto byte = static_cast<unsigned char>(text_[at]);
    const std::size_t length = utf8_length(text_, at);
    const bool plain = length > 0 && byte >= 0x20 && byte != 0x7f;
    if (out.size() + (plain ? length : kEscapeBytes) > max_bytes_) {
      break;
    }
    if (plain) {
      out.append(text_.substr(at, length));
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
    at += plain ? length : 1;
  }
  if (at < text_.size()) {
    out += "...";
  }
  return out;
}

fmt::format_context::iterator FormattedAsText::write(std::string_view text,
                                                     fmt::format_context& context) {
  return std::copy(text.begin(), text.end(), context.out());
}

}  // namespace nibble::core
