#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/packed_weight.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/packed/unit_writer.h"

/// Weights whose units, tables and factors are known from the reference.
namespace nibble::ops::cuda {

/// Every number of bits, kind of scales and length of groups that units hold.
inline const std::vector<std::string> kUnitSchemes = {
    "int4-sym-g128", "int4-asym-g32",   "int4-sym-row",      "int4-asym-g256",
    "int4-asym-row", "int3-asym-g64",   "int3-sym-row",      "int2-sym-g32",
    "int2-asym-g16", "int8-sym-row",    "int8-asym-g128",    "lut4-nf4-g64",
    "lut4-row-g128", "lut3-matrix-g32", "lut2-row-g16",      "mxfp4",
    "nvfp4",         "int4-sym-g48",    "int4-sym-g128-s7",  "lut4-matrix-g32-s7",
    "int8-asym-g16", "lut4-fp4-row",    "int3-asym-g96",     "int4-asym-g128-a4g32",
    "int3-sym-g128", "int2-asym-g64",   "int2-sym-row",      "lut3-row-g64",
    "lut2-row-g128", "lut2-matrix-g32", "int3-asym-g128-a3", "lut3-row-g128-a8",
    "int4-min-g32",  "int8-min-g64",    "int2-min-g16",      "int3-min-g128"};

/// Rows and inputs; the schemes with blocks of a fixed size need rows of a multiple of 32 inputs,
/// and minima rows of whole groups.
struct UnitShape {
  std::int64_t n;
  std::int64_t k;
};
inline std::vector<UnitShape> unit_shapes(const std::string& scheme) {
  if (scheme.find("-min-") != std::string::npos) {
    return {{64, 128}, {77, 384}, {3, 1024}, {130, 256}};
  }
  if (scheme == "mxfp4" || scheme == "nvfp4") {
    return {{64, 128}, {77, 416}, {3, 1056}, {200, 32}};
  }
  return {{64, 128}, {77, 417}, {3, 1061}, {200, 30}, {130, 250}, {1, 1}};
}

/// Some weights of one scheme and length as they stand in units together, and what the reference
/// makes of them.
struct UnitCase {
  std::vector<formats::PackedWeight> weights;
  UnitRows rows;
  UnitFormat format;
  UnitGrid grid;
  std::vector<std::byte> units;
  std::vector<std::int8_t> tables;
  std::vector<float> factors;

  UnitCase(const std::string& scheme, const std::vector<std::int64_t>& counts, std::int64_t k,
           bool pairs = false) {
    for (const std::int64_t n : counts) {
      weights.push_back(
          cpu::testing::random_weight(scheme, n, k, static_cast<std::uint64_t>(n + 7 * k)));
    }
    for (const formats::PackedWeight& weight : weights) {
      rows.weights.push_back(&weight);
    }
    rows.pairs = pairs;
    format = unit_format_of(weights.front().scheme);
    grid = unit_grid(rows.count(), k);
    const auto padded = static_cast<std::size_t>(grid.row_groups * kUnitRows);
    units.resize(static_cast<std::size_t>(grid.count() * format.bytes()));
    tables.resize(is_book(format.codes) ? padded * 16 : 0);
    factors.resize(padded);
    write_units(rows, format, units, tables, factors);
  }
  UnitCase(const UnitCase&) = delete;  // rows point to weights
  UnitCase& operator=(const UnitCase&) = delete;
};

}  // namespace nibble::ops::cuda
