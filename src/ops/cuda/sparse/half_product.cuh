#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

struct ProductArguments {
  const std::byte* x;
  const float* bias;
  float* y;
  int m;
  int row_bytes;  // of x
  int ldy;
  bool adds;
};

inline ProductArguments arguments_of(const HalfProduct& product) {
  return {reinterpret_cast<const std::byte*>(product.x),
          product.bias,
          product.y,
          static_cast<int>(product.m),
          static_cast<int>(product.ldx * std::int64_t{sizeof(core::Fp16)}),
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

/// Where lane 4 g + t reads token g of each column, from value `first` on; those behind the last
/// token read it again.
template <typename Value, int kColumns>
__device__ __forceinline__ void find_tokens(const ProductArguments& a, int g, int first,
                                            const Value* (&tokens)[kColumns]) {
#pragma unroll
  for (int column = 0; column < kColumns; ++column) {
    const std::byte* const row =
        a.x + static_cast<std::size_t>(min(column * kColumn + g, a.m - 1)) * a.row_bytes;
    tokens[column] = reinterpret_cast<const Value*>(row) + first;
  }
}

template <typename Sum, int kColumns>
using ProductSums = Sum[kProductWarps][kColumns * kColumn][kProductRows];

/// Adds what the warps have, in their order, finishes it (finish(row of the 16, token, sum), a
/// float), adds the bias, and writes it. `row_of`: the row that row `at` of the 16 is; below 0:
/// none. All threads of the block call it.
template <typename Sum, int kColumns, typename RowOf, typename Finish>
__device__ __forceinline__ void write_products(const ProductArguments& a,
                                               const Sum (&c)[kColumns][4],
                                               ProductSums<Sum, kColumns>& sums,
                                               const RowOf& row_of, const Finish& finish) {
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
    Sum sum = 0;
#pragma unroll
    for (int w = 0; w < kProductWarps; ++w) {
      sum += sums[w][token][at];
    }
    const float result = finish(at, token, sum) + (a.bias == nullptr ? 0.0f : a.bias[row]);
    float* const y = a.y + static_cast<std::size_t>(token) * a.ldy + row;
    *y = a.adds ? *y + result : result;
  }
}

/// finish() of sums that are the results.
struct SumsAsTheyAre {
  __device__ float operator()(int, int, float sum) const { return sum; }
};

}  // namespace nibble::ops::cuda
