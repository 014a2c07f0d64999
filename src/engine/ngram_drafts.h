#pragma once

#include <cstdint>

#include "engine/drafts.h"

namespace nibble::engine {

/// Guesses that a sequence goes on as it did the last time that its latest tokens stood in it
/// (prompt lookup decoding): the longest end of at most kLongest and at least kShortest tokens that
/// occurs earlier counts, and of its places the last one.
class NgramDrafts final : public DraftSource {
 public:
  static constexpr std::int64_t kLongest = 4;
  static constexpr std::int64_t kShortest = 2;

  explicit NgramDrafts(std::int64_t most) : most_(most) {}

  std::int64_t most() const override { return most_; }
  void draft(std::span<const DraftRequest> requests,
             std::vector<std::vector<std::int32_t>>& drafts) override;
  void forget(std::uint64_t) override {}

 private:
  std::int64_t most_;
};

}  // namespace nibble::engine
