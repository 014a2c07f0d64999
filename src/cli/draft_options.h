#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/option.h"
#include "engine/drafts.h"
#include "engine/runner.h"

namespace nibble::cli {

/// Where guesses for speculative decoding come from.
class DraftOptions {
 public:
  void add(CLI::App& app);

  /// Whether there was one in the call.
  bool given() const { return !source_.empty(); }

  /// The source that was asked for, or null, for so many sequences of `model` at a time. Throws
  /// kUsage for a draft model with another vocabulary, and as models::open_model and
  /// engine::make_runner.
  std::unique_ptr<engine::DraftSource> open(const models::Model& model,
                                            engine::RunnerOptions options,
                                            std::int64_t sequences) const;

 private:
  std::string source_;
  std::int64_t most_ = 5;
};

}  // namespace nibble::cli
