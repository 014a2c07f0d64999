#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/packed_weight.h"
#include "ops/cuda/packed/unit_format.h"

namespace nibble::ops::cuda {

/// The format that holds weights of this scheme. Integers of 2 and 3 bits, and books of 4 and 8
/// entries, take 4 bits here. Throws kUsage, naming the scheme, for one that no kernel computes.
UnitFormat unit_format_of(const formats::Scheme& scheme);

/// Whether unit_format_of() knows the scheme.
bool has_units(const formats::Scheme& scheme);

/// The units of row groups [first, first + count) of a weight (not of one with a tail). Padding is
/// zero weights.
///   units   [count * grid.blocks * format.bytes()]
///   tables  [count * 64][16], kBook only, else empty
///   factors [count * 64]: by what a row's sums are multiplied after their scales: the unit of its
///           table, or 1
void write_units(const formats::PackedWeight& weight, const UnitFormat& format, std::int64_t first,
                 std::int64_t count, std::span<std::byte> units, std::span<std::int8_t> tables,
                 std::span<float> factors);

}  // namespace nibble::ops::cuda
