#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "device/cuda/memory.h"
#include "formats/packed_weight.h"
#include "ops/cuda/packed/unit_writer.h"
#include "ops/cuda/small_batch/reference.h"

/// Weights and activations for tests of layers with integer activations.
namespace nibble::ops::cuda {

/// A weight in the memory of the device.
struct OnDevice {
  device::cuda::Buffer units;
  device::cuda::Buffer tables;
  device::cuda::Buffer factors;
  UnitsView view;

  explicit OnDevice(const formats::PackedWeight& weight) {
    view.format = unit_format_of(weight.scheme);
    view.n = weight.n;
    view.k = weight.k;
    const UnitGrid grid = unit_grid(weight.n, weight.k);
    std::vector<std::byte> bytes(static_cast<std::size_t>(grid.count() * view.format.bytes()));
    const bool book = is_book(view.format.codes);
    const auto rows = static_cast<std::size_t>(grid.row_groups * kUnitRows);
    std::vector<std::int8_t> entries(book ? rows * 16 : 0);
    std::vector<float> values(rows);
    write_units(weight, view.format, bytes, entries, values);
    units = device::cuda::Buffer::of<std::byte>(bytes);
    tables = device::cuda::Buffer::of<std::int8_t>(entries);
    factors = device::cuda::Buffer::of<float>(values);
    view.units = units.data();
    view.tables = tables.as<std::int8_t>();
    view.factors = book ? factors.as<float>() : nullptr;
  }
  std::int64_t padded_k() const { return unit_grid(view.n, view.k).blocks * kUnitInputs; }
};

inline IntegerActivations random_activations(std::int64_t m, std::int64_t k, int digits,
                                             std::uint64_t seed, std::int64_t step = kUnitInputs) {
  core::Random random(seed);
  const int top = digits == 2 ? 255 * 127 + 127 : 127;
  IntegerActivations x{m, k, digits, {}, {}, step};
  for (std::int64_t i = 0; i < m * k; ++i) {
    x.codes.push_back(static_cast<std::int32_t>(random.below(2 * top + 1)) - top);
  }
  for (std::int64_t i = 0; i < m * unit_grid(1, k).blocks * kUnitInputs / step; ++i) {
    x.scales.push_back(static_cast<float>(0.5 + random.uniform()) / static_cast<float>(top));
  }
  return x;
}

}  // namespace nibble::ops::cuda
