#include "text/model/token_table.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::text {
namespace {

constexpr std::int64_t kIdsPerGap = 256;
constexpr std::size_t kMaxTokenBytes = 1 << 20;

}  // namespace

void require_dense(std::int64_t count, std::int64_t max_id, std::string_view what) {
  const std::int64_t gaps = max_id + 1 - count;
  core::require(gaps <= (max_id + 1) / kIdsPerGap, core::ErrorKind::kInvalidModel,
                "{}: the ids are not dense: {} tokens, but the largest id is {}", what, count,
                max_id);
}

TokenTable::TokenTable(const std::vector<Entry>& entries, std::string_view what,
                       const std::vector<bool>& hidden)
    : count_(static_cast<std::int64_t>(entries.size())) {
  using core::ErrorKind;
  std::int64_t max_id = -1;
  std::size_t bytes = 0;
  for (const auto& [token, id] : entries) {
    core::require(id >= 0 && id < kMaxVocabulary, ErrorKind::kInvalidModel,
                  "{}: the token '{}' has the id {}, must be 0 to {}", what, core::printable(token),
                  id, kMaxVocabulary - 1);
    core::require(token.size() <= kMaxTokenBytes, ErrorKind::kInvalidModel,
                  "{}: the token with id {} has {} bytes, more than {}", what, id, token.size(),
                  kMaxTokenBytes);
    max_id = std::max(max_id, id);
    bytes += token.size();
    longest_ = std::max(longest_, token.size());
  }
  require_dense(static_cast<std::int64_t>(entries.size()), max_id, what);
  arena_.reserve(bytes);
  slots_.resize(static_cast<std::size_t>(max_id + 1));
  ids_.reserve(entries.size());
  for (const auto& [token, id] : entries) {
    Slot& slot = slots_[static_cast<std::size_t>(id)];
    core::require(slot.bytes == kGap, ErrorKind::kInvalidModel, "{}: the id {} stands twice", what,
                  id);
    slot = {arena_.size(), static_cast<std::uint32_t>(token.size())};
    arena_.insert(arena_.end(), token.begin(), token.end());
    const auto index = static_cast<std::size_t>(id);
    if (index < hidden.size() && hidden[index]) {
      continue;
    }
    const auto [at, inserted] = ids_.try_emplace(this->token(static_cast<std::int32_t>(id)), id);
    if (!inserted) {
      at->second = std::max(at->second, static_cast<std::int32_t>(id));
    }
  }
}

}  // namespace nibble::text
