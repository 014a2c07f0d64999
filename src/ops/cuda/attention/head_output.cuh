#pragma once

#include <cstdint>

#include "ops/cuda/attention/attention.h"
#include "ops/cuda/elementwise/row_sinks.cuh"

namespace nibble::ops::cuda {

/// Where results of attention go, up to four elements of a head at a time: rows, halves or, whole
/// heads of 128 elements only, integers.
struct HeadSink {
  float* rows;           // or null
  HalfSink halves;       // where its values are not null
  IntegerSink integers;  // where its codes are not null
  std::int64_t columns;  // heads * head_dim

  /// A head of D elements; lane l of the warp has elements 4l .. 4l + 3, lanes from D / 4 on none.
  template <int D>
  __device__ void store_head(std::int64_t row, int head, float4 value) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if constexpr (D == kInputPadding) {
      if (integers.target.codes != nullptr) {
        IntegerSink of_heads = integers;
        of_heads.target.symmetric = true;  // attention_writes() allows no others
        of_heads.target.group = D;
        of_heads.store(row, head * D + 4 * lane, value);
        return;
      }
    }
    if (lane < D / 4) {
      store(row, head * D + 4 * lane, value);
    }
  }
  __device__ void store(std::int64_t row, int column, float4 value) const {
    if (rows != nullptr) {
      *reinterpret_cast<float4*>(rows + row * columns + column) = value;
    } else {
      halves.store(row, column, value);
    }
  }
  __device__ void store(std::int64_t row, int column, float2 value) const {
    if (rows != nullptr) {
      *reinterpret_cast<float2*>(rows + row * columns + column) = value;
    } else {
      halves.store(row, column, value);
    }
  }
  __device__ void store(std::int64_t row, int column, float value) const {
    if (rows != nullptr) {
      rows[row * columns + column] = value;
    } else {
      halves.store(row, column, value);
    }
  }
  /// Zeros behind the last head; called by one warp.
  __device__ void pad(std::int64_t row) const {
    if (halves.values == nullptr) {
      return;
    }
    for (int column = static_cast<int>(columns) + static_cast<int>(threadIdx.x) % kWarp;
         column < halves.padded; column += kWarp) {
      halves.store(row, column, 0.0f);
    }
  }
};

inline HeadSink head_sink(const AttentionOutput& output, std::int64_t columns) {
  const InputTarget& target = output.target;
  const auto padded = static_cast<int>(padded_columns(columns));
  return {output.rows,
          HalfSink::of(target, static_cast<int>(columns)),
          {target, padded, static_cast<int>(columns)},
          columns};
}

}  // namespace nibble::ops::cuda
