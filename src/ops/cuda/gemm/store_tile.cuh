#pragma once

#include <cstdint>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/add_in_memory.cuh"
#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/mma.cuh"
#include "ops/cuda/elementwise/activated.cuh"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/packed/unit_format.h"

namespace nibble::ops::cuda {

/// Writes what a warp computed: 16 rows from first_row on, kTokens tokens from first_token on. Lane
/// 4 g + t holds, as values 4 j + 2 r + c, row 8 r + g and token 8 j + 2 t + c. Arguments have the
/// numbers of `rows` and `tokens`, `factors` of rows or null, and the `output`.
template <int kTokens, class Arguments>
struct TileStore {
  const Arguments& a;
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
    if (a.output.y == nullptr) {
      return store_gated(scale, value);
    }
    const bool whole =
        first_row + static_cast<int>(kTileRows) <= a.rows && first_token + kTokens <= a.tokens;
    if (!whole) {
      store_part(scale, value);
    } else if (a.output.adds) {
      store_whole<true>(scale, value);
    } else {
      store_whole<false>(scale, value);
    }
  }

 private:
  // Eight lanes write 32 bytes that lie together. No branches, so that loads go ahead of stores.
  template <bool kAdds, class Scale, class Value>
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
          put<kAdds>(to + (8 * j + c) * a.output.stride + 8 * r,
                     __fadd_rn(__fmul_rn(value(4 * j + 2 * r + c, r, token_scale), factors[r]),
                               biases[r]));
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
            const float y = __fadd_rn(
                __fmul_rn(value(4 * j + 2 * r + c, r, token_scale), factors[r]), biases[r]);
            float* const to = a.output.y + token(j, c) * a.output.stride + row(r);
            a.output.adds ? put<true>(to, y) : put<false>(to, y);
          }
        }
      }
    }
  }

  // Where it adds, nothing waits for what was there. No other thread adds to the same value, so
  // that the sum does not depend on the order.
  template <bool kAdds>
  __device__ static __forceinline__ void put(float* to, float y) {
    if constexpr (kAdds) {
      add_in_memory(to, y);
    } else {
      *to = y;
    }
  }

  // Tokens whose results are held at a time: all that is loaded for them is, before anything is
  // written.
  static constexpr int kHeldTokens = kTokens < 128 ? kTokens : 128;
  static constexpr int kPairs = kHeldTokens / 4;  // of gate and up, of a lane

  // A lane has gate row g and up row g of its tokens.
  template <class Scale, class Value>
  __device__ __forceinline__ void store_gated(Scale& scale, Value& value) const {
    const float biases[2] = {bias(0), bias(1)};
    const float factors[2] = {factor(0), factor(1)};
#pragma unroll
    for (int held = 0; held < kTokens; held += kHeldTokens) {
      float gates[kPairs];
      float ups[kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const int j = held / 8 + i / 2;
        const int c = i % 2;
        const float token_scale = scale(min(token(j, c), a.tokens - 1));
        const auto finished = [&](int r) {
          const float scaled = value(4 * j + 2 * r + c, r, token_scale);
          return __fadd_rn(__fmul_rn(scaled, factors[r]), biases[r]);
        };
        gates[i] = finished(0);
        ups[i] = finished(1);
      }
      activate_all(*a.output.half.activation, gates);
      store_products(gates, ups, first_token + held);
    }
  }

  // Eight columns of eight tokens at a time are transposed, so that lane 4 g + t writes columns 2 t
  // and 2 t + 1 of token g, and four lanes 16 bytes that lie together. Rows come in sixteens: all
  // of the tile, or none. A tile without rows goes the same way, since a branch around a
  // transposition would cost the loop over k its uniform registers.
  __device__ __forceinline__ void store_products(const float (&gates)[kPairs],
                                                 const float (&ups)[kPairs], int first_held) const {
    const HalfOutput& output = a.output.half;
    const int column = first_row / 2 + lane() % 4 * 2;
    const int first = first_held + lane() / 4;
    const int tokens = first_row < a.rows ? a.tokens - first : 0;
    __half* to = static_cast<__half*>(output.values) + first * output.stride +
                 (output.tiles ? half_tile_position(column) : column);
#pragma unroll
    for (int j = 0; j < kHeldTokens / 8; ++j) {
      const std::uint32_t pair =
          transposed(saturated_half2(gates[2 * j] * ups[2 * j], gates[2 * j + 1] * ups[2 * j + 1]));
      if (8 * j < tokens) {
        *reinterpret_cast<std::uint32_t*>(to) = pair;
      }
      to += 8 * output.stride;
    }
  }
};

}  // namespace nibble::ops::cuda
