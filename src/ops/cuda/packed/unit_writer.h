#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/packed/unit_rows.h"

/// What the device must make of compressed weights (unit_packer.h, unit_kernels.h), for tests:
/// slow, and one value at a time.
namespace nibble::ops::cuda {

/// The units of rows of weights (none with a tail). Padding is zero weights.
///   units   [grid.count() * format.bytes()]
///   tables  [grid.row_groups * 64][16], books only, else empty
///   factors [grid.row_groups * 64], of write_tables(), or 1
void write_units(const UnitRows& rows, const UnitFormat& format, std::span<std::byte> units,
                 std::span<std::int8_t> tables, std::span<float> factors);
inline void write_units(const formats::PackedWeight& weight, const UnitFormat& format,
                        std::span<std::byte> units, std::span<std::int8_t> tables,
                        std::span<float> factors) {
  write_units(UnitRows{{&weight}}, format, units, tables, factors);
}

/// Sums of a row's weights as units hold them, over each `step` inputs (0: over all), with scales
/// and factors.
std::vector<float> unit_row_sums(const formats::PackedWeight& weight, const UnitFormat& format,
                                 std::int64_t row, std::int64_t step);

}  // namespace nibble::ops::cuda
