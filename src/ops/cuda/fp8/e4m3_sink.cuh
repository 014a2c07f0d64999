#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "core/float8.h"
#include "formats/fp8/fp8_codes.h"
#include "ops/cuda/elementwise/row_sinks.cuh"

namespace nibble::ops::cuda {

/// Where rows become E4M3 in tile order, one scale for each row, max|x| / 448: bit for bit as
/// cpu::round_to_e4m3 makes them.
struct E4m3RowSink {
  std::int8_t* codes;
  float* scales;
  int padded;
  static constexpr bool kIntegers = true;  // each value is needed twice, as by those
  static constexpr bool kByRowOnly = true;

  static bool serves(const InputTarget& target) {
    return target.form == InputForm::kByteTiles && target.type == &formats::kFp8Codes;
  }
  static E4m3RowSink of(const InputTarget& target, int columns) {
    return {target.codes, target.scales, static_cast<int>(padded_columns(columns))};
  }

  __host__ __device__ static constexpr bool by_row() { return true; }
  __device__ static constexpr bool symmetric() { return true; }
  __device__ static void widen_by(Spread& spread, float4 value) { widen(spread, value, true); }

  __device__ static Coder coder(const Spread& spread) {
    constexpr float kLargest = 448.0f;
    constexpr float kTinyRow = 1.5046328e-36f;  // 2^-119: 448 / kTinyRow is still finite
    Coder coder;
    const float largest = __int_as_float(spread.magnitude);
    if (spread.magnitude >= kInfinityBits) {
      coder.scale = __int_as_float(0x7fc00000);
    } else if (largest >= kTinyRow) {
      coder.scale = __fdiv_rn(largest, kLargest);
      coder.inverse = __fdiv_rn(kLargest, largest);
    }
    return coder;
  }

  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    if (column >= padded) {
      return;
    }
    const std::uint32_t first = codes_of(value.x, value.z, coder.inverse);
    const std::uint32_t word = first | codes_of(value.y, value.w, coder.inverse) << 16;
    std::int8_t* const to = codes + row * padded + int8_tile_position(column);
    *reinterpret_cast<std::uint32_t*>(to) = coder.inverse == 0.0f ? 0 : word;
  }

  __device__ void store_scale(std::int64_t row, const Coder& coder) const {
    scales[row] = coder.scale;
  }

 private:
  // Of two values, the first in the lowest byte.
  __device__ static std::uint32_t codes_of(float low, float high, float inverse) {
    const float first = __fmul_rn(low, inverse);
    const float second = __fmul_rn(high, inverse);
#if __CUDA_ARCH__ >= 890
    std::uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return core::to_e4m3(first).bits | std::uint32_t{core::to_e4m3(second).bits} << 8;
#endif
  }
};

}  // namespace nibble::ops::cuda
