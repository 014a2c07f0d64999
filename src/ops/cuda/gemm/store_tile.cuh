#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"

namespace nibble::ops::cuda {

/// Writes what a warp computed: 16 rows from first_row on, kTokens tokens from first_token on. Lane
/// 4 g + t holds, as values 4 j + 2 r + c, row 8 r + g and token 8 j + 2 t + c.
template <int kTokens>
struct TileStore {
  const GemmArguments& a;
  int first_row;
  int first_token;

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int row(int r) const { return first_row + lane() / 4 + 8 * r; }
  __device__ int token(int j, int c) const { return first_token + 8 * j + lane() % 4 * 2 + c; }
  __device__ float bias(int r) const {
    return a.output.bias != nullptr && row(r) < a.rows ? a.output.bias[row(r)] : 0.0f;
  }

  __device__ float factor(int r) const {
    return a.factors != nullptr && row(r) < a.rows ? a.factors[row(r)] : 1.0f;
  }

  /// `scale(token)` is loaded once for each token, `value(i, r, scale)` finishes value i.
  template <class Scale, class Value>
  __device__ __forceinline__ void store(Scale&& scale, Value&& value) const {
    const bool whole =
        first_row + static_cast<int>(kTileRows) <= a.rows && first_token + kTokens <= a.tokens;
    if (whole && a.output.y != nullptr && a.output.y_half == nullptr) {
      store_whole(scale, value);
    } else {
      store_part(scale, value);
    }
  }

 private:
  // Eight lanes write 32 bytes that lie together. No branches, so that loads go ahead of stores.
  template <class Scale, class Value>
  __device__ __forceinline__ void store_whole(Scale& scale, Value& value) const {
    const float biases[2] = {bias(0), bias(1)};
    const float factors[2] = {factor(0), factor(1)};
    float* to = a.output.y + token(0, 0) * a.output.stride + row(0);
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float token_scale = scale(token(j, c));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          to[(8 * j + c) * a.output.stride + 8 * r] =
              __fadd_rn(__fmul_rn(value(4 * j + 2 * r + c, r, token_scale), factors[r]), biases[r]);
        }
      }
    }
  }

  template <class Scale, class Value>
  __device__ __forceinline__ void store_part(Scale& scale, Value& value) const {
    const float biases[2] = {bias(0), bias(1)};
    const float factors[2] = {factor(0), factor(1)};
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (token(j, c) >= a.tokens) {
          continue;
        }
        const float token_scale = scale(token(j, c));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (row(r) < a.rows) {
            store_one(token(j, c), row(r),
                      __fadd_rn(__fmul_rn(value(4 * j + 2 * r + c, r, token_scale), factors[r]),
                                biases[r]));
          }
        }
      }
    }
  }

  __device__ __forceinline__ void store_one(int token, int row, float y) const {
    if (a.output.y != nullptr) {
      a.output.y[token * a.output.stride + row] = y;
    }
    if (a.output.y_half != nullptr) {
      static_cast<__half*>(a.output.y_half)[token * a.output.half_stride + row] =
          __float2half_rn(saturated(y));
    }
  }
};

}  // namespace nibble::ops::cuda
