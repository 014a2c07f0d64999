#pragma once

#include <cstdint>

#include "device/cuda/memory.h"
#include "formats/activation.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/input_target.h"

/// Memory for the inputs of linear layers, filled with what no operator writes.
namespace nibble::ops::cuda::testing {

using device::cuda::Buffer;

struct Shape {
  std::int64_t m;
  std::int64_t columns;
};

struct HalfTarget {
  Buffer values;
  InputTarget target;
  HalfTarget(const Shape& shape, bool tiles)
      : values(poisoned<core::Fp16>(shape.m * padded_columns(shape.columns))) {
    target.form = tiles ? InputForm::kFloat16Tiles : InputForm::kFloat16;
    target.values = values.as<core::Fp16>();
  }
};

constexpr float kStoredScale = 0.03f;  // larger values are cut

struct IntegerTarget {
  Buffer codes;
  Buffer scales;
  Buffer zeros;
  InputTarget target;
  IntegerTarget(const Shape& shape, const formats::Activation& activation) {
    const std::int64_t padded = padded_columns(shape.columns);
    const std::int64_t groups = activation.group == 0 ? 1 : padded / activation.group;
    codes = poisoned<std::int8_t>(shape.m * padded);
    scales = poisoned<float>(shape.m * groups);
    target.form = InputForm::kByteTiles;
    target.codes = codes.as<std::int8_t>();
    target.scales = scales.as<float>();
    if (activation.carries_zeros()) {
      zeros = poisoned<std::int32_t>(shape.m * groups);
      target.zeros = zeros.as<std::int32_t>();
    }
    target.bits = activation.bits;
    target.symmetric = activation.symmetric;
    target.group = activation.group;
    target.clip = activation.clip;
    target.scale = activation.stored_scale ? kStoredScale : 0.0f;
  }
};

}  // namespace nibble::ops::cuda::testing
