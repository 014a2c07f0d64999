#pragma once

#include <cstdint>

#include "device/cuda/memory.h"
#include "ops/cuda/gemm/gemm_test_data.h"

namespace nibble::ops::cuda {

using device::cuda::Buffer;

inline int padded(int columns) {
  return (columns + 127) / 128 * 128;
}

/// Weights in the memory of the device.
struct OnDevice {
  Buffer units;
  Buffer tables;
  Buffer factors;
  GemmWeights view;

  explicit OnDevice(const TestWeights& weights)
      : units(Buffer::of<std::uint8_t>(weights.units)),
        tables(Buffer::of<std::int8_t>(weights.tables)),
        factors(Buffer::of<float>(weights.plain.factors)),
        view(weights.view) {
    view.units.units = units.data();
    view.units.tables = tables.as<std::int8_t>();
    view.units.factors = weights.plain.factors.empty() ? nullptr : factors.as<float>();
  }
};

/// INT8 inputs there, in tile order.
struct Int8OnDevice {
  Buffer codes;
  Buffer scales;
  Int8Inputs view;
  GemmInputs kind;

  explicit Int8OnDevice(const PlainInt8Inputs& inputs)
      : codes(Buffer::of<std::int8_t>(in_tile_order(inputs, padded(inputs.columns)))),
        scales(Buffer::of<float>(inputs.scales)),
        view{.codes = codes.as<std::int8_t>(),
             .tokens = inputs.tokens,
             .row_bytes = padded(inputs.columns),
             .scales = scales.as<float>(),
             .token_stride = inputs.group == 0 ? 1 : padded(inputs.columns) / 128,
             .group_stride = inputs.group == 0 ? 0 : 1},
        kind(inputs.group == 0 ? GemmInputs::kInt8 : GemmInputs::kInt8ScaledByGroup) {}
};

}  // namespace nibble::ops::cuda
