#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/request.h"

namespace nibble::serve {

/// engine::Piece, to keep.
struct TextPiece {
  std::string text;
  std::vector<engine::TokenRecord> records;

  static TextPiece of(const engine::Piece& piece) {
    return {std::string(piece.text), {piece.records.begin(), piece.records.end()}};
  }
};

/// A request with its callbacks, which run on the thread that has submitted it.
struct Job {
  engine::Request request;  // its own callbacks are not used
  std::function<void(TextPiece)> on_piece;
  std::function<void(engine::Completion)> on_finish;  // also when the engine refuses it: kFailed
};

/// Who writes texts. All calls come from one thread, and no callback of a job runs
/// before submit() has returned.
class TextJobs {
 public:
  using JobId = std::uint64_t;

  virtual ~TextJobs() = default;
  virtual JobId submit(Job job) = 0;
  /// The job's callbacks may still run.
  virtual void cancel(JobId id) = 0;
};

/// The completion of a request that the engine refuses by the exception that is being handled.
inline engine::Completion refused_completion() {
  engine::Completion completion;
  completion.reason = engine::FinishReason::kFailed;
  completion.error = std::current_exception();
  return completion;
}

}  // namespace nibble::serve
