#pragma once

#include <cstdint>

#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/row_sources.cuh"

/// Norms of a row, whoever computes them: sums are taken over chunks of 128 columns, one for each
/// warp and step, and then over chunks, so that their order does not depend on the number of
/// threads.
namespace nibble::ops::cuda {

inline constexpr int kChunk = 4 * kWarp;

/// The sum of the sums of chunks, on every lane of the warp.
__device__ __forceinline__ float sum_of_chunks(const float* sums, int chunks) {
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < chunks; i += kWarp) {
    sum += sums[i];
  }
  return warp_sum(sum);
}

/// x -> (x - shift) * factor * weight + bias.
struct Normalizer {
  float shift = 0.0f;
  float factor = 1.0f;
};

__device__ __forceinline__ float squares(float4 x) {
  return fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, x.w * x.w)));
}

__device__ __forceinline__ float4 centered(float4 x, int column, int columns, float shift) {
  const auto at = [&](int i, float v) { return column + i < columns ? v - shift : 0.0f; };
  return {at(0, x.x), at(1, x.y), at(2, x.z), at(3, x.w)};
}

/// What a row with this sum of squares of `n` elements is multiplied with.
__device__ __forceinline__ float rms_factor(float sum, float n, float eps) {
  return 1.0f / sqrtf(sum / n + eps);
}

/// Four elements of a row.
__device__ __forceinline__ float4 normalized(const Normalizer& row, float4 x, float4 weight,
                                             float4 bias) {
  const auto at = [&](float value, float scale, float add) {
    return __fadd_rn(__fmul_rn(__fmul_rn(value - row.shift, row.factor), scale), add);
  };
  return {at(x.x, weight.x, bias.x), at(x.y, weight.y, bias.y), at(x.z, weight.z, bias.z),
          at(x.w, weight.w, bias.w)};
}

/// The same from `column` on; zeros past the row's end.
__device__ __forceinline__ float4 normalized(const NormWeights& norm, const Normalizer& row,
                                             int column, int columns, float4 x) {
  const Rows weight{norm.weight, 0, columns, true};
  const Rows bias{norm.bias, 0, columns, true};
  const float4 w = weight.load(0, column);
  const float4 b = norm.bias == nullptr ? float4{} : bias.load(0, column);
  const float4 y = normalized(row, x, w, b);
  if (column + 4 <= columns) {
    return y;
  }
  const auto kept = [&](int i, float value) { return column + i < columns ? value : 0.0f; };
  return {kept(0, y.x), kept(1, y.y), kept(2, y.z), kept(3, y.w)};
}

}  // namespace nibble::ops::cuda
