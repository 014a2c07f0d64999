#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/add_in_memory.cuh"
#include "ops/cuda/gemm/block_results.cuh"
#include "ops/cuda/gemm/code_results.cuh"
#include "ops/cuda/gemm/half_results.cuh"
#include "ops/cuda/packed/unit_format.h"

namespace nibble::ops::cuda {

/// Writes what a warp computed: 16 rows from first_row on, kTokens tokens from first_token on. Lane
/// 4 g + t holds, as values 4 j + 2 r + c, row 8 r + g and token 8 j + 2 t + c. Arguments have the
/// numbers of `rows` and `tokens`, `factors` of rows or null, and the `output`.
/// kSends: also BlockOutput.
template <int kTokens, class Arguments, bool kSends = true>
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
    if (a.output.half.values != nullptr) {
      return store_halves(scale, value);
    }
    if (a.output.codes.codes != nullptr) {
      return store_codes(scale, value);
    }
    if constexpr (kSends) {
      if (a.output.in_blocks()) {
        return store_blocks(scale, value);
      }
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

  // Tokens whose results are held at a time, as registers suffice: all that is loaded for them is,
  // before anything is written.
  static constexpr int kHeldTokens = kTokens <= 128 ? kTokens : 64;
  static constexpr int kHeld = kHeldTokens / 4;  // of a row, of a lane

  template <class Scale, class Value>
  __device__ __forceinline__ void store_halves(Scale& scale, Value& value) const {
    each_held(scale, value, [&](int held, auto& lower, auto& upper) {
      put_halves(a.output.half, lower, upper, [&](int round, const auto& pairs) {
        put_columns(round, pairs, first_token + held + lane() / 4);
      });
    });
  }

  template <class Scale, class Value>
  __device__ __forceinline__ void store_codes(Scale& scale, Value& value) const {
    const CodeOutput& output = a.output.codes;
    if (first_row == 0) {
      put_scales(output, first_token, kTokens, a.tokens, lane(), 32);
    }
    ResultCoder coder(output);
    const HalfOutput halves{.activation = output.activation};
    each_held(scale, value, [&](int held, auto& lower, auto& upper) {
      put_halves(halves, lower, upper, [&](int round, const auto& pairs) {
        const int column = half_column(halves, first_row, round, lane());
        const int first = first_token + held + lane() / 4;
        std::int8_t* to = output.codes + first * output.stride + code_position(column);
#pragma unroll
        for (int j = 0; j < kHeld / 2; ++j) {
          const bool inside = column < a.rows && first + 8 * j < a.tokens;
          const uint2 both = coder.codes(pairs[j], inside);
          if (inside) {
            to[0] = static_cast<std::int8_t>(both.x);
            to[2] = static_cast<std::int8_t>(both.y);
          }
          to += 8 * output.stride;
        }
      });
    });
    coder.note();
  }

  template <class Scale, class Value>
  __device__ __forceinline__ void store_blocks(Scale& scale, Value& value) const {
    const BlockPlaces to(a.output.blocks, a.rows);
    each_held(scale, value, [&](int held, auto& lower, auto& upper) {
      put_blocks(to, first_row, held, lower);
      put_blocks(to, first_row + kWireBlock, held, upper);
    });
  }

  // Values of eight rows: of tokens held + 8 j + 2 t + c as number 2 j + c.
  __device__ __forceinline__ void put_blocks(const BlockPlaces& to, int rows, int held,
                                             const float (&values)[kHeld]) const {
    const int g = lane() / 4;
#pragma unroll
    for (int first = 0; first < kHeld; first += kWireBlock) {
      std::uint32_t bits[kWireBlock];
#pragma unroll
      for (int i = 0; i < kWireBlock; ++i) {
        bits[i] = __float_as_uint(values[first + i]);
      }
      exchange_rows(bits);
      const int token = first_token + held + 8 * ((first + g) / 2) + lane() % 4 * 2 + g % 2;
      if (token < a.tokens && rows < a.rows) {
        to.put(token, rows, bits);
      }
    }
  }

  // Calls `put(held, lower, upper)` for the results of some tokens at a time.
  template <class Scale, class Value, class Put>
  __device__ __forceinline__ void each_held(Scale& scale, Value& value, Put&& put) const {
    const float biases[2] = {bias(0), bias(1)};
    const float factors[2] = {factor(0), factor(1)};
#pragma unroll
    for (int held = 0; held < kTokens; held += kHeldTokens) {
      float lower[kHeld];
      float upper[kHeld];
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int j = held / 8 + i / 2;
        const int c = i % 2;
        const float token_scale = scale(min(token(j, c), a.tokens - 1));
        const auto finished = [&](int r) {
          const float scaled = value(4 * j + 2 * r + c, r, token_scale);
          return __fadd_rn(__fmul_rn(scaled, factors[r]), biases[r]);
        };
        lower[i] = finished(0);
        upper[i] = finished(1);
      }
      put(held, lower, upper);
    }
  }

  // Two columns of token first, first + 8, ...: four lanes write 16 bytes that lie together. A tile
  // without rows or tokens goes the same way up to here, since a branch around a transposition
  // would cost the loop over k its uniform registers.
  __device__ __forceinline__ void put_columns(int round, const std::uint32_t (&pairs)[kHeld / 2],
                                              int first) const {
    const HalfOutput& output = a.output.half;
    const int column = half_column(output, first_row, round, lane());
    const int left = (output.pairs ? a.rows / 2 : a.rows) - column;
    const int tokens = left > 0 ? a.tokens - first : 0;
    auto* to = static_cast<std::uint16_t*>(output.values) + first * output.stride +
               half_position(output, column);
#pragma unroll
    for (int j = 0; j < kHeld / 2; ++j) {
      if (8 * j < tokens) {
        if (left > 1) {
          *reinterpret_cast<std::uint32_t*>(to) = pairs[j];
        } else {
          *to = static_cast<std::uint16_t>(pairs[j]);
        }
      }
      to += 8 * output.stride;
    }
  }
};

}  // namespace nibble::ops::cuda
