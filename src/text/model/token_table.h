#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text_hash.h"

namespace nibble::text {

/// Ids that a vocabulary may have at most.
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 24;

/// The tokens of a model: strings by id and ids by string. Immutable.
class TokenTable {
 public:
  using Entry = std::pair<std::string, std::int64_t>;  // token, id

  TokenTable() = default;

  /// Throws kInvalidModel, naming `what`, when an id is negative or too large, stands twice, or
  /// when more than one id in 256 has no token. (Vocabularies made from OpenAI's cl100k have a few
  /// gaps; larger ones are damage, and would let a small file ask for much memory.) Of equal tokens
  /// the one with the largest id is found by its string. Ids for which `hidden` is true are not
  /// found by their string (control tokens, which no text may spell).
  TokenTable(const std::vector<Entry>& entries, std::string_view what,
             const std::vector<bool>& hidden = {});

  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;

  /// Tokens that it has.
  std::int64_t count() const { return count_; }
  /// One more than the largest id.
  std::int64_t size() const { return static_cast<std::int64_t>(slots_.size()); }
  bool has(std::int64_t id) const {
    return id >= 0 && id < size() && slots_[static_cast<std::size_t>(id)].bytes != kGap;
  }
  /// The token of an id that it has.
  std::string_view token(std::int32_t id) const {
    const Slot& slot = slots_[static_cast<std::size_t>(id)];
    return {arena_.data() + slot.begin, slot.bytes};
  }
  std::optional<std::int32_t> id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Bytes of the longest token.
  std::size_t longest() const { return longest_; }

 private:
  struct Slot {
    std::size_t begin = 0;
    std::uint32_t bytes = kGap;
  };
  static constexpr std::uint32_t kGap = UINT32_MAX;

  std::vector<char> arena_;  // all tokens; the keys of ids_ point into it
  std::vector<Slot> slots_;
  std::unordered_map<std::string_view, std::int32_t, core::TextHash> ids_;
  std::int64_t count_ = 0;
  std::size_t longest_ = 0;
};

/// Throws kInvalidModel when `count` distinct ids do not fill [0, max_id] but for the few gaps that
/// TokenTable allows.
void require_dense(std::int64_t count, std::int64_t max_id, std::string_view what);

}  // namespace nibble::text
