#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/option.h"
#include "engine/sampler.h"

namespace nibble::cli {

/// What a call says of draws; what it does not say is the model's.
struct SaidDraws {
  std::optional<float> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<std::uint64_t> seed;
  /// Whether it says how to draw.
  bool any() const { return temperature || top_k || top_p || min_p; }
};

/// How tokens are drawn.
class SamplingArguments {
 public:
  void add(CLI::App& app);

  /// Throws kUsage for a bias that is malformed; ranges are checked where the options are used.
  engine::SamplingOptions options() const;

  /// What the call itself says, without defaults.
  SaidDraws said() const;

 private:
  engine::SamplingOptions options_;
  std::vector<std::string> biases_;
  const CLI::App* app_ = nullptr;
};

}  // namespace nibble::cli
