#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::engine {

/// A sequence for which tokens are to be guessed.
struct DraftRequest {
  std::uint64_t id = 0;                  // the same in every step of a sequence
  std::span<const std::int32_t> tokens;  // so far
  std::int64_t count = 0;                // tokens to guess at the most
};

/// Guesses how sequences go on; the model then checks several guesses in one step (speculative
/// decoding, arXiv 2211.17192). Guesses change how fast tokens come, never which.
class DraftSource {
 public:
  virtual ~DraftSource() = default;

  /// Tokens that it guesses for one sequence in one step, at the most.
  virtual std::int64_t most() const = 0;
  /// drafts[i]: up to requests[i].count tokens; may be empty.
  virtual void draft(std::span<const DraftRequest> requests,
                     std::vector<std::vector<std::int32_t>>& drafts) = 0;
  /// A sequence has ended.
  virtual void forget(std::uint64_t id) = 0;
};

}  // namespace nibble::engine
