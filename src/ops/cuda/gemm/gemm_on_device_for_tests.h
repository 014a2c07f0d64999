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

}  // namespace nibble::ops::cuda
