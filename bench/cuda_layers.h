#pragma once

#include <cstdint>
#include <vector>

#include "core/float16.h"
#include "core/random.h"
#include "device/cuda_devices.h"
#include "ops/cuda/schedules/choose_schedules.h"
#include "ops/cuda/schedules/linear_trial.h"

/// What the benches of layers on a GPU share.
namespace nibble::bench {

/// Normal numbers, which are repeated from some place on.
inline std::vector<core::Fp16> random_halves(std::int64_t count) {
  constexpr std::int64_t kPattern = 1 << 20;
  core::Random random(1);
  std::vector<core::Fp16> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = i < kPattern
                                              ? core::to_fp16(random.normal())
                                              : values[static_cast<std::size_t>(i - kPattern)];
  }
  return values;
}

/// As many weights of `make`(), which say their bytes(), as no cache holds.
template <typename Make>
auto copies_of(const Make& make) {
  constexpr std::int64_t kCaches = 4;
  std::vector<decltype(make())> copies;
  copies.push_back(make());
  while (std::ssize(copies) * copies.front().bytes() <
         kCaches * device::current_cuda_device().l2_bytes) {
    copies.push_back(make());
  }
  return copies;
}

/// Seconds of a layer in units, by the kernel that it takes, as built in.
inline double built_in_seconds(const ops::cuda::LinearShape& layer, int tokens) {
  const auto candidates = linear_candidates(layer, device::current_cuda_device().multiprocessors);
  const ops::cuda::LinearTrial trial(layer, tokens);
  if (!candidates.medium.empty() && layer.is_medium(tokens)) {
    return trial.medium(tokens, candidates.medium.front());
  }
  if (tokens <= ops::cuda::max_small_batch(layer.format, layer.digits())) {
    return trial.few_tokens(tokens, candidates.built_in_few);
  }
  return trial.gemm(tokens, candidates.built_in_plan(tokens));
}

}  // namespace nibble::bench
