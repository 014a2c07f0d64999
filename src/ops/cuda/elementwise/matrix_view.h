#pragma once

#include <cstdint>

#include "core/float16.h"

/// Matrices as operators on rows take them: on the device, row-major, without gaps, in float32 or
/// float16.
///
/// float16 ends at +-65504. Who writes float16 cuts to that range what is finite, or makes it
/// infinite; who reads it and finds such a value, or NaN, says so: it writes 1 to `saturated`,
/// where that is given.
namespace nibble::ops::cuda {

/// A matrix that is read.
struct MatrixView {
  MatrixView(const float* values) : data(values) {}
  MatrixView(const core::Fp16* values, std::int32_t* flag = nullptr)
      : data(values), half(true), saturated(flag) {}

  const void* data;
  bool half = false;
  std::int32_t* saturated = nullptr;
};

/// A matrix that is written, or changed in its place.
struct MutableMatrixView {
  MutableMatrixView(float* values) : data(values) {}
  MutableMatrixView(core::Fp16* values, std::int32_t* flag = nullptr)
      : data(values), half(true), saturated(flag) {}
  operator MatrixView() const {
    return half ? MatrixView(static_cast<const core::Fp16*>(data), saturated)
                : MatrixView(static_cast<const float*>(data));
  }

  void* data;
  bool half = false;
  std::int32_t* saturated = nullptr;
};

/// Two float16 with their sign bits set where the magnitude is 65504 (0x7bff) or beyond.
constexpr std::uint32_t ends_of_range(std::uint32_t halves) {
  return (halves & 0x7fff7fffu) + 0x04010401u;
}

/// Whether one of four float16 is +-65504, infinite or NaN.
constexpr bool has_saturated(std::uint32_t first, std::uint32_t second) {
  return ((ends_of_range(first) | ends_of_range(second)) & 0x80008000u) != 0;
}

}  // namespace nibble::ops::cuda
