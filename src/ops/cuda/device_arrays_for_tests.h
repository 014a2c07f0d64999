#pragma once

#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "core/float16.h"
#include "core/random_values_for_tests.h"
#include "device/cuda/memory.h"

namespace nibble::ops::cuda {

using core::normal_values;

template <typename T>
device::cuda::Buffer on_device(const std::vector<T>& values) {
  return device::cuda::Buffer::of<T>(std::span<const T>(values));
}

/// `count` elements of bytes 0xff (NaN, -1): what a kernel leaves out is seen.
template <typename T>
device::cuda::Buffer poisoned(std::int64_t count) {
  const std::vector<std::uint8_t> bytes(static_cast<std::size_t>(count) * sizeof(T), 0xff);
  return on_device(bytes);
}

inline core::Fp16 saturated_fp16(float value) {
  const bool finite = std::isfinite(value);
  return core::to_fp16(finite ? std::fmin(std::fmax(value, -65504.0f), 65504.0f) : value);
}

/// Where column k lies in tile order (CUDA input of linear layers, input_target.h), by search in
/// the formula.
inline std::int64_t float16_tile_position(std::int64_t k) {
  for (std::int64_t t = 0; t < 4; ++t) {
    for (std::int64_t e = 0; e < 2; ++e) {
      for (std::int64_t i = 0; i < 4; ++i) {
        if (8 * t + 4 * e + i == k % 32) {
          return k / 32 * 32 + 16 * e + 2 * t + (i & 1) + 8 * (i >> 1);
        }
      }
    }
  }
  return -1;
}

inline std::int64_t int8_tile_position(std::int64_t k) {
  constexpr std::int64_t kInner[] = {0, 2, 1, 3};
  for (std::int64_t p = 0; p < 32; ++p) {
    if (8 * (p % 16 / 4) + 4 * (p / 16) + kInner[p % 4] == k % 32) {
      return k / 32 * 32 + p;
    }
  }
  return -1;
}

/// The same in lane order.
inline std::int64_t int8_lane_position(std::int64_t k) {
  constexpr std::int64_t kInner[] = {0, 2, 1, 3};
  return k / 128 * 128 + 32 * (k % 32 / 8) + 8 * (k % 128 / 32) + 4 * (k % 8 / 4) + kInner[k % 4];
}

/// Largest |a - b| / (|b| + floor); infinite where only one of them is finite.
inline double worst_error(std::span<const float> a, std::span<const float> b, double floor) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      continue;
    }
    const double error = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])) /
                         (std::fabs(static_cast<double>(b[i])) + floor);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace nibble::ops::cuda
