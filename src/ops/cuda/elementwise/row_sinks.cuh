#pragma once

#include <cstdint>

#include "ops/cuda/device_code/half.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/elementwise/checks.h"
#include "ops/cuda/elementwise/coder.cuh"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/elementwise/int4_tiles.h"
#include "ops/cuda/elementwise/row_codes.h"
#include "ops/cuda/elementwise/row_sources.cuh"

/// Where the values of a row go: four at a time, in columns that are a multiple of 4; past the
/// row's end they are zeros. All lanes of a warp call together: lane l has column c + 4l.
namespace nibble::ops::cuda {

template <typename R>
struct MatrixSink {
  R shape;
  typename R::Element* data;
  static constexpr bool kIntegers = false;
  static constexpr bool kByRowOnly = false;
  __device__ void store(std::int64_t row, int column, float4 value) const {
    if (column < shape.columns) {
      store_row(data, shape, row, column, value);
    }
  }
};

inline MatrixSink<Rows> matrix_sink(float* data, std::int64_t columns) {
  return {rows_of(data, columns, columns), data};
}
inline MatrixSink<HalfRows> matrix_sink(core::Fp16* data, std::int64_t columns) {
  return {rows_of(data, columns, columns), data};
}

/// body(its sink) for a matrix of either type.
template <typename Body>
void with_sink(const MutableMatrixView& y, std::int64_t columns, const Body& body) {
  if (y.half) {
    body(matrix_sink(static_cast<core::Fp16*>(y.data), columns));
  } else {
    body(matrix_sink(static_cast<float*>(y.data), columns));
  }
}

/// A matrix, and the input of linear layers that is made of what the matrix holds.
template <typename R, typename Input>
struct StreamSink {
  MatrixSink<R> stream;
  Input input;
  static constexpr bool kIntegers = Input::kIntegers;
  static constexpr bool kByRowOnly = Input::kByRowOnly;

  /// Four values as the matrix holds them: those that all else is given.
  __device__ static float4 held(float4 value) { return rounded<typename R::Element>(value); }

  __host__ __device__ bool by_row() const { return input.by_row(); }
  __device__ bool symmetric() const { return input.symmetric(); }
  __device__ void widen_by(Spread& spread, float4 value) const { input.widen_by(spread, value); }
  __device__ Coder coder(const Spread& spread) const { return input.coder(spread); }
  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    stream.store(row, column, value);
    input.store_codes(row, column, value, coder);
  }
  __device__ void store_scale(std::int64_t row, const Coder& coder) const {
    input.store_scale(row, coder);
  }
  __device__ void store(std::int64_t row, int column, float4 value) const {
    stream.store(row, column, value);
    input.store(row, column, value);
  }
};

struct HalfSink {
  core::Fp16* values;
  int padded;
  bool tiles;
  float* sums = nullptr;  // where lane 0 has a column that is a multiple of 128
  std::int64_t sum_stride = 0;
  bool bfloat16 = false;
  static constexpr bool kIntegers = false;
  static constexpr bool kByRowOnly = false;

  static bool serves(const InputTarget& target) { return has_values(target.form); }
  static HalfSink of(const InputTarget& target, int columns) {
    const bool tiles =
        target.form == InputForm::kFloat16Tiles || target.form == InputForm::kFloat16Summed;
    return {target.values,     static_cast<int>(padded_columns(columns)), tiles, target.sums,
            target.sum_stride, target.form == InputForm::kBFloat16};
  }
  __device__ void store(std::int64_t row, int column, float4 value) const {
    if (column >= padded) {
      return;
    }
    const std::uint32_t first = pair(value.x, value.y);
    const std::uint32_t second = pair(value.z, value.w);
    if (sums != nullptr) {
      store_sum(row, column, first, second);
    }
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
        pair(value.x, value.y);
  }
  __device__ void store(std::int64_t row, int column, float value) const {
    values[row * padded + position(column)].bits = static_cast<std::uint16_t>(pair(value, 0.0f));
  }
  __device__ std::uint32_t pair(float low, float high) const {
    return bfloat16 ? bfloat162(low, high) : saturated_half2(low, high);
  }
  __device__ int position(int column) const { return tiles ? half_tile_position(column) : column; }

  __device__ void store_sum(std::int64_t row, int column, std::uint32_t first,
                            std::uint32_t second) const {
    const float2 a = float2_of(first);
    const float2 b = float2_of(second);
    const float sum = warp_sum((a.x + a.y) + (b.x + b.y));
    if (column % static_cast<int>(kInputPadding) == 0) {
      float* const to =
          sums + column / static_cast<int>(kInputPadding) * sum_stride + row / 2 * 4 + row % 2;
      to[0] = sum * (-1.0f / (1 << 21));
      to[2] = sum * (-1.0f / (1 << 17));
    }
  }
};

/// Where four columns of INT8 stand in a row in tile order (input_target.h).
__device__ __forceinline__ int int8_tile_position(int column) {
  return column / 32 * 32 + 16 * (column % 8 / 4) + 4 * (column % 32 / 8);
}

/// The same in lane order.
__device__ __forceinline__ int int8_lane_position(int column) {
  return column / 128 * 128 + 32 * (column % 32 / 8) + 8 * (column % 128 / 32) +
         4 * (column % 8 / 4);
}

/// Integers of any kind.
struct IntegerSink {
  InputTarget target;
  int padded;
  int columns;
  static constexpr bool kIntegers = true;
  static constexpr bool kByRowOnly = false;

  static bool serves(const InputTarget& target) { return target.has_integers(); }
  static IntegerSink of(const InputTarget& target, int columns) {
    check_target(target);
    return {target, static_cast<int>(padded_columns(columns)), columns};
  }

  __host__ __device__ bool by_row() const { return target.group == 0; }
  __device__ bool symmetric() const { return target.symmetric; }
  __device__ void widen_by(Spread& spread, float4 value) const {
    widen(spread, value, target.symmetric);
  }

  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    if (column >= padded) {
      return;
    }
    std::int8_t* place = target.codes + row * target.digits() * padded + position(column);
    if (target.bits == 16) {
      const FourDigits digits(value, coder.inverse);
      *reinterpret_cast<std::uint32_t*>(place) = digits.first;
      *reinterpret_cast<std::uint32_t*>(place + padded) = digits.second;
      return;
    }
    const std::int32_t shift = has_nibbles() ? int4_shift(coder, target.symmetric) : 0;
    const auto code = [&](int i, float x) {
      if (column + i >= columns) {
        return shift;
      }
      return (target.scale != 0.0f ? cut_code_of(coder, x) : code_of(coder, x)) + shift;
    };
    const std::int32_t codes[4] = {code(0, value.x), code(2, value.z), code(1, value.y),
                                   code(3, value.w)};
    if (has_nibbles()) {
      return store_nibbles(row, column, word_of(codes));
    }
    *reinterpret_cast<std::uint32_t*>(place) = word_of(codes);
  }

  __host__ __device__ bool has_nibbles() const { return target.form == InputForm::kInt4Tiles; }

  /// Lanes of two neighbours have the columns of a word: the first one writes it.
  __device__ void store_nibbles(std::int64_t row, int column, std::uint32_t word) const {
    const std::uint32_t next = __shfl_down_sync(kAllLanes, word, 1);
    if (column % 8 == 0) {
      std::int8_t* const to = target.codes + row * (padded / kInt4PerByte) + int4_word_byte(column);
      *reinterpret_cast<std::uint32_t*>(to) = joined_int4(word, next);
    }
  }

  static __device__ std::uint32_t word_of(const std::int32_t (&codes)[4]) {
    std::uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      word |= static_cast<std::uint32_t>(codes[i] & 255) << (8 * i);
    }
    return word;
  }

  /// Where four columns stand in a row.
  __device__ int position(int column) const {
    return target.form == InputForm::kInt8Lanes ? int8_lane_position(column)
                                                : int8_tile_position(column);
  }

  __device__ void store_scale(std::int64_t at, const Coder& coder) const {
    target.scales[at] = coder.scale;
    if (target.zeros != nullptr) {
      target.zeros[at] = has_nibbles() ? int4_shift(coder, target.symmetric) : coder.zero;
    }
  }

  __device__ Coder coder(const Spread& spread) const {
    if (target.scale != 0.0f) {
      return given_coder(target.bits, target.scale, spread);
    }
    return target.bits == 16 ? wide_coder(spread.magnitude)
                             : coder_of(target.bits, target.symmetric, target.clip, spread);
  }

  /// Groups of target.group columns with a scale each.
  __device__ void store(std::int64_t row, int column, float4 value) const {
    const Spread mine = spread_of(value);
    const int lanes = static_cast<int>(target.group) / 4;
    Spread spread;
    spread.magnitude = lanes_max(mine.magnitude, lanes);
    if (!target.symmetric) {
      spread.low = lanes_min(mine.low, lanes);
      spread.high = lanes_max(mine.high, lanes);
    }
    const Coder group_coder = coder(spread);
    store_codes(row, column, value, group_coder);
    if (column < padded && column % target.group == 0) {
      store_scale((row * padded + column) / target.group, group_coder);
    }
  }

  __device__ Spread spread_of(float4 value) const {
    Spread spread;
    widen_by(spread, value);
    return spread;
  }
};

/// What most integers are, in half of the instructions: of 8 or 4 bits in bytes, symmetric and not
/// clipped, in tile order, with a scale for each row.
struct Int8RowSink {
  std::int8_t* codes;
  float* scales;
  int padded;
  int bits;
  static constexpr bool kIntegers = true;
  static constexpr bool kByRowOnly = true;  // no scales of groups

  static bool serves(const InputTarget& target) {
    return takes_row_codes(target) && target.scale == 0.0f;
  }
  static Int8RowSink of(const InputTarget& target, int columns) {
    check_target(target);
    return {target.codes, target.scales, static_cast<int>(padded_columns(columns)), target.bits};
  }

  __host__ __device__ static constexpr bool by_row() { return true; }
  __device__ static constexpr bool symmetric() { return true; }
  __device__ static void widen_by(Spread& spread, float4 value) {
    float magnitude = __int_as_float(spread.magnitude);
    magnitude = larger(larger(magnitude, value.x), value.y);
    magnitude = larger(larger(magnitude, value.z), value.w);
    spread.magnitude = __float_as_int(magnitude);
  }
  __device__ Coder coder(const Spread& spread) const { return coder_of(bits, true, 1.0f, spread); }

  /// No magnitude is beyond the largest, so that codes need no bounds: they are the lowest bytes of
  /// the shifted numbers.
  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    if (column < padded) {
      const auto shifted = [&](float x) { return shifted_product(x, coder.inverse); };
      const std::uint32_t word =
          lowest_bytes(shifted(value.x), shifted(value.y), shifted(value.z), shifted(value.w));
      std::int8_t* const to = codes + row * padded + int8_tile_position(column);
      *reinterpret_cast<std::uint32_t*>(to) = coder.inverse == 0.0f ? 0 : word;
    }
  }
  __device__ void store_scale(std::int64_t row, const Coder& coder) const {
    scales[row] = coder.scale;
  }

 private:
  // NaN once one of them is.
  __device__ static float larger(float magnitude, float value) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(magnitude), "f"(fabsf(value)));
    return result;
  }
};

}  // namespace nibble::ops::cuda
