#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/sparse/half_product.h"

/// What kernels share in which a thread block multiplies 16 rows of weights by all tokens: its
/// warps take parts of the inputs, products of tensor cores have 16 rows and 8 tokens. Lane 4 g +
/// t.
namespace nibble::ops::cuda {

inline constexpr int kProductWarps = 8;
inline constexpr int kProductThreads = kProductWarps * kWarp;
inline constexpr int kProductRows = 16;
inline constexpr int kColumn = 8;  // tokens of one product
inline constexpr std::uint32_t kMagic =
    0x64006400;  // float16 1024 twice: with a code in the low bits, 1024 + code

struct HalfArguments {
  const core::Fp16* x;
  const float* bias;
  float* y;
  int m;
  int ldx;
  int ldy;
  bool adds;
};

inline HalfArguments arguments_of(const HalfProduct& product) {
  return {product.x,
          product.bias,
          product.y,
          static_cast<int>(product.m),
          static_cast<int>(product.ldx),
          static_cast<int>(product.ldy),
          product.adds};
}

/// launch(columns) of the fewest of 1, 2, 4 or 8 that hold m tokens.
template <typename Launch>
void with_columns(int m, const Launch& launch) {
  if (m <= kColumn) {
    return launch(std::integral_constant<int, 1>());
  }
  if (m <= 2 * kColumn) {
    return launch(std::integral_constant<int, 2>());
  }
  if (m <= 4 * kColumn) {
    return launch(std::integral_constant<int, 4>());
  }
  launch(std::integral_constant<int, 8>());
}

/// Two codes, with kMagic in their high bits, less the zero point (likewise) and times the scale,
/// as float16 that are rounded once.
__device__ __forceinline__ std::uint32_t scaled_pair(std::uint32_t codes, std::uint32_t zero,
                                                     std::uint32_t scale) {
  const __half2 code =
      __hsub2(*reinterpret_cast<const __half2*>(&codes), *reinterpret_cast<const __half2*>(&zero));
  const __half2 value = __hmul2(code, *reinterpret_cast<const __half2*>(&scale));
  return *reinterpret_cast<const std::uint32_t*>(&value);
}

/// Where lane 4 g + t reads token g of each column, from input `first` on; those behind the last
/// token read it again.
template <int kColumns>
__device__ __forceinline__ void find_tokens(const HalfArguments& a, int g, int first,
                                            const core::Fp16* (&tokens)[kColumns]) {
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
    tokens[column] =
        a.x + static_cast<std::size_t>(min(column * kColumn + g, a.m - 1)) * a.ldx + first;
  }
}

template <int kColumns>
using ProductSums = float[kProductWarps][kColumns * kColumn][kProductRows];

/// Adds what the warps have, in their order, and the bias, and writes it. `row_of`: the row that
/// row `at` of the 16 is; below 0: none. All threads of the block call it.
template <int kColumns, typename RowOf>
__device__ __forceinline__ void write_products(const HalfArguments& a,
                                               const float (&c)[kColumns][4],
                                               ProductSums<kColumns>& sums, const RowOf& row_of) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[warp][column * kColumn + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * kProductRows / 2] =
          c[column][i];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < a.m * kProductRows; i += kProductThreads) {
    const int token = i / kProductRows;
    const int at = i % kProductRows;
    const int row = row_of(at);
    if (row < 0) {
      continue;
    }
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kProductWarps; ++w) {
      sum += sums[w][token][at];
    }
    sum += a.bias == nullptr ? 0.0f : a.bias[row];
    float* const y = a.y + static_cast<std::size_t>(token) * a.ldy + row;
    *y = a.adds ? *y + sum : sum;
  }
}

}  // namespace nibble::ops::cuda
