#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.h"
#include "engine/runner.h"

namespace nibble::engine {

/// Sequences that a caller continues by hand, each with pages of its own from the start: for
/// measurements and tests. Requests go to the engine.
class FixedSequences {
 public:
  /// Takes the runner's KV cache, and makes a larger one where it must. Throws as make_pages().
  FixedSequences(Runner& runner, std::int64_t count, std::int64_t capacity)
      : pages_each_(ops::pages_for(capacity)),
        pages_(static_cast<std::size_t>(count * pages_each_)),
        lengths_(static_cast<std::size_t>(count)) {
    std::iota(pages_.begin(), pages_.end(), 0);
    if (runner.pages() < count * pages_each_) {
      runner.make_pages(count * pages_each_);
    }
  }

  std::int64_t length(std::int64_t index) const {
    return lengths_[static_cast<std::size_t>(index)];
  }

  /// The slice with which sequence `index` goes on; the next one starts behind it.
  Slice next(std::int64_t index, std::span<const std::int32_t> tokens, std::int64_t logits = 1) {
    std::int64_t& length = lengths_[static_cast<std::size_t>(index)];
    const auto first = static_cast<std::size_t>(index * pages_each_);
    const Slice slice{std::span(pages_).subspan(first, static_cast<std::size_t>(pages_each_)),
                      length, tokens, logits};
    length += static_cast<std::int64_t>(tokens.size());
    return slice;
  }

 private:
  std::int64_t pages_each_;
  std::vector<ops::PageId> pages_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace nibble::engine
