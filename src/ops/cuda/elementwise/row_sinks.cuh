#pragma once

#include <cstdint>

#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/coder.cuh"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/elementwise/row_sources.cuh"

/// Where the values of a row go: four at a time, in columns that are a multiple of 4; past the
/// row's end they are zeros. All lanes of a warp call together: lane l has column c + 4l.
namespace nibble::ops::cuda {

struct MatrixSink {
  Rows shape;
  float* data;
  static constexpr bool kIntegers = false;
  __device__ void store(std::int64_t row, int column, float4 value) const {
    if (column < shape.columns) {
      store_row(data, shape, row, column, value);
    }
  }
};

struct HalfSink {
  core::Fp16* values;
  int padded;
  bool tiles;
  static constexpr bool kIntegers = false;
  __device__ void store(std::int64_t row, int column, float4 value) const {
    if (column >= padded) {
      return;
    }
    const std::uint32_t first = saturated_half2(value.x, value.y);
    const std::uint32_t second = saturated_half2(value.z, value.w);
    if (!tiles) {
      *reinterpret_cast<uint2*>(values + row * padded + column) = {first, second};
      return;
    }
    const int t = column % 32 / 8;
    const int e = column % 8 / 4;
    auto* to = reinterpret_cast<std::uint32_t*>(values + row * padded + column / 32 * 32) + 8 * e;
    to[t] = first;
    to[t + 4] = second;
  }
  /// Two values, column even; or one.
  __device__ void store(std::int64_t row, int column, float2 value) const {
    *reinterpret_cast<std::uint32_t*>(values + row * padded + position(column)) =
        saturated_half2(value.x, value.y);
  }
  __device__ void store(std::int64_t row, int column, float value) const {
    values[row * padded + position(column)].bits =
        static_cast<std::uint16_t>(saturated_half2(value, 0.0f));
  }
  __device__ int position(int column) const {
    const int i = column % 4;
    return tiles ? column / 32 * 32 + 16 * (column % 8 / 4) + 2 * (column % 32 / 8) + (i & 1) +
                       8 * (i >> 1)
                 : column;
  }
};

struct IntegerSink {
  InputTarget target;
  int padded;
  int columns;
  static constexpr bool kIntegers = true;

  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    if (column >= padded) {
      return;
    }
    const auto code = [&](int i, float x) -> std::uint32_t {
      return column + i < columns ? code_of(coder, x) & 255 : 0;
    };
    const std::uint32_t word =
        code(0, value.x) | code(2, value.z) << 8 | code(1, value.y) << 16 | code(3, value.w) << 24;
    const int t = column % 32 / 8;
    const int e = column % 8 / 4;
    *reinterpret_cast<std::uint32_t*>(target.codes + row * padded + column / 32 * 32 + 16 * e +
                                      4 * t) = word;
  }

  __device__ void store_scale(std::int64_t at, const Coder& coder) const {
    target.scales[at] = coder.scale;
    if (target.zeros != nullptr) {
      target.zeros[at] = coder.zero;
    }
  }

  __device__ Coder coder(const Spread& spread) const {
    return coder_of(target.bits, target.symmetric, target.clip, spread);
  }

  /// Groups of target.group columns with a scale each.
  __device__ void store(std::int64_t row, int column, float4 value) const {
    Spread spread = spread_of(value);
    const int lanes = static_cast<int>(target.group) / 4;
    spread.magnitude = lanes_max(spread.magnitude, lanes);
    spread.low = lanes_min(spread.low, lanes);
    spread.high = lanes_max(spread.high, lanes);
    const Coder group_coder = coder(spread);
    store_codes(row, column, value, group_coder);
    if (column < padded && column % target.group == 0) {
      store_scale((row * padded + column) / target.group, group_coder);
    }
  }

  static __device__ Spread spread_of(float4 value) {
    Spread spread;
    widen(spread, value.x);
    widen(spread, value.y);
    widen(spread, value.z);
    widen(spread, value.w);
    return spread;
  }
};

}  // namespace nibble::ops::cuda
