#pragma once

#include <cstdint>

#include "ops/cuda/elementwise/row_sinks.cuh"

namespace nibble::ops::cuda {

/// What the weights of few tokens read: codes of 16 bits as two digits, symmetric and not clipped,
/// with a scale for 128 columns, which are those of a warp.
struct DigitSink {
  std::int8_t* codes;
  float* scales;
  int padded;
  bool lanes;  // in lane order, not in tile order
  static constexpr bool kIntegers = true;
  static constexpr bool kByRowOnly = false;

  static bool serves(const InputTarget& target) {
    return target.has_integers() && target.bits == 16 && target.symmetric &&
           target.group == kInputPadding && target.clip == 1.0f && target.scale == 0.0f &&
           target.zeros == nullptr &&
           (target.form == InputForm::kInt8Lanes || target.form == InputForm::kByteTiles);
  }
  static DigitSink of(const InputTarget& target, int columns) {
    check_target(target);
    return {target.codes, target.scales, static_cast<int>(padded_columns(columns)),
            target.form == InputForm::kInt8Lanes};
  }

  __host__ __device__ static constexpr bool by_row() { return false; }
  __device__ static constexpr bool symmetric() { return true; }
  __device__ static void widen_by(Spread& spread, float4 value) { widen(spread, value, true); }
  __device__ static Coder coder(const Spread& spread) { return wide_coder(spread.magnitude); }

  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    if (column < padded) {
      put_codes(row, column, value, coder);
    }
  }
  /// Of columns below `padded`.
  __device__ void put_codes(std::int64_t row, int column, float4 value, const Coder& coder) const {
    const FourDigits digits(value, coder.inverse);
    std::int8_t* const to = codes + row * 2 * padded +
                            (lanes ? int8_lane_position(column) : int8_tile_position(column));
    *reinterpret_cast<std::uint32_t*>(to) = digits.first;
    *reinterpret_cast<std::uint32_t*>(to + padded) = digits.second;
  }
  __device__ void store_scale(std::int64_t at, const Coder& coder) const {
    scales[at] = coder.scale;
  }

  /// Of the values of a warp.
  __device__ static Coder coder_of_warp(float4 value) {
    Spread spread;
    widen_by(spread, value);
    spread.magnitude = __reduce_max_sync(kAllLanes, spread.magnitude);
    return coder(spread);
  }

  __device__ void store(std::int64_t row, int column, float4 value) const {
    const Coder of_group = coder_of_warp(value);
    store_codes(row, column, value, of_group);
    if (column < padded && column % static_cast<int>(kInputPadding) == 0) {
      store_scale((row * padded + column) / kInputPadding, of_group);
    }
  }
};

}  // namespace nibble::ops::cuda
