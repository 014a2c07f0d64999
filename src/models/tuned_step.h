#pragma once

#include <cstdint>
#include <string>

namespace nibble::models {

/// The step that the types of a model's parts were chosen for, and what they lose
/// (engine/strategy_file.h).
struct TunedStep {
  std::string device;  // as StrategyKey: "AMD EPYC 9654, cpu, avx512vnni, 2 threads, kernels 3"
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  double loss = 0.0;    // of the whole model
  std::string measure;  // of the loss: "sst2 acc"
};
/// What a step may have of texts, and of tokens in each.
inline constexpr std::int64_t kMostStepTexts = 1 << 20;

}  // namespace nibble::models
