#include "engine/ngram_drafts.h"

#include <algorithm>

namespace nibble::engine {
namespace {

using Tokens = std::span<const std::int32_t>;

// What followed the last earlier place of the last `length` tokens; empty when there is none.
Tokens followed(Tokens tokens, std::size_t length) {
  if (tokens.size() <= length) {
    return {};
  }
  const Tokens end = tokens.last(length);
  for (std::size_t at = tokens.size() - length; at-- > 0;) {
    if (std::equal(end.begin(), end.end(), tokens.begin() + static_cast<std::ptrdiff_t>(at))) {
      return tokens.subspan(at + length);
    }
  }
  return {};
}

}  // namespace

void NgramDrafts::draft(std::span<const DraftRequest> requests,
                        std::vector<std::vector<std::int32_t>>& drafts) {
  drafts.assign(requests.size(), {});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Tokens rest;
    for (std::int64_t length = kLongest; length >= kShortest && rest.empty(); --length) {
      rest = followed(requests[i].tokens, static_cast<std::size_t>(length));
    }
    const auto count = std::min(
        rest.size(), static_cast<std::size_t>(std::max<std::int64_t>(requests[i].count, 0)));
    drafts[i].assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

}  // namespace nibble::engine
