#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/sampler.h"

namespace nibble::cli {

/// How tokens are drawn.
class SamplingArguments {
 public:
  void add(CLI::App& app);

  /// Throws kUsage for a bias that is malformed; ranges are checked where the options are used.
  engine::SamplingOptions options() const;

 private:
  engine::SamplingOptions options_;
  std::vector<std::string> biases_;
};

}  // namespace nibble::cli
