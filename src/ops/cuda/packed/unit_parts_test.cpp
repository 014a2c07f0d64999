#include "ops/cuda/packed/unit_parts.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ops/cuda/packed/unit_cases_for_tests.h"

namespace nibble::ops::cuda {
namespace {

// A unit as a block of threads writes it (unit_kernels.cu).
template <CodeKind kKind>
void pack_unit(const RawRows& raw, const UnitFormat& format, std::int64_t row, std::int64_t input,
               std::byte* unit) {
  for (std::int64_t tile = 0; tile < kTiles; ++tile) {
    for (unsigned vector = 0; vector < code_vectors(kKind); ++vector) {
      const CodeVector codes = code_vector<kKind>(raw, row + tile * kTileRows, input, vector);
      std::memcpy(unit + tile * format.tile_bytes() + 16 * vector, codes.words, 16);
    }
  }
  for (std::int64_t i = 0; i < kUnitRows * format.groups; ++i) {
    const UnitColumn at(format, i);
    std::byte* tile = unit + at.tile * format.tile_bytes();
    const std::uint16_t scale = unit_scale(raw, row + at.row, input + at.input);
    std::memcpy(tile + format.code_bytes() + 2 * at.place, &scale, 2);
    if (format.has_zeros()) {
      tile[format.zero_offset() + at.place] =
          static_cast<std::byte>(unit_zero(raw, row + at.row, input + at.input));
    }
    if (format.has_shifts()) {
      const std::uint16_t shift = unit_shift(raw, row + at.row, input + at.input);
      std::memcpy(tile + format.zero_offset() + 2 * at.place, &shift, 2);
    }
  }
}

void pack_unit(const RawRows& raw, const UnitFormat& format, std::int64_t row, std::int64_t input,
               std::byte* unit) {
  with_code_kind(format.codes,
                 [&]<CodeKind kKind>() { pack_unit<kKind>(raw, format, row, input, unit); });
}

// Read and packed in pieces of `step` rows, into bytes of 0xff.
std::vector<std::byte> packed(const UnitCase& weights, std::int64_t step) {
  std::vector<std::byte> units(weights.units.size(), std::byte{0xff});
  RawRows raw = raw_layout(weights.rows);
  const std::int64_t all = weights.rows.count();
  for (std::int64_t first = 0; first < all; first += step) {
    raw.count = std::min(step, all - first);
    std::vector<std::byte> bytes(static_cast<std::size_t>(raw.count * raw.stride));
    read_raw_rows(weights.rows, raw, first, raw.count, bytes.data());
    raw.bytes = reinterpret_cast<const std::uint8_t*>(bytes.data());
    for (std::int64_t row = 0; row < raw.count; row += kUnitRows) {
      for (std::int64_t block = 0; block < weights.grid.blocks; ++block) {
        const std::int64_t number = (first + row) / kUnitRows * weights.grid.blocks + block;
        pack_unit(raw, weights.format, row, block * kUnitInputs,
                  units.data() + number * weights.format.bytes());
      }
    }
  }
  return units;
}

void expect_packed(const UnitCase& weights, std::int64_t step, const std::string& what) {
  const std::vector<std::byte> units = packed(weights, step);
  const auto first = std::mismatch(units.begin(), units.end(), weights.units.begin()).first;
  EXPECT_EQ(first, units.end()) << what << ": byte " << first - units.begin() << " of "
                                << weights.format.bytes() << " of a unit";
}

TEST(UnitParts, MakeTheUnitsOfTheReference) {
  for (const std::string& scheme : kUnitSchemes) {
    for (const auto& [n, k] : unit_shapes(scheme)) {
      const std::string what = scheme + ", " + std::to_string(n) + " x " + std::to_string(k);
      expect_packed(UnitCase(scheme, {n}, k), n, what);
    }
  }
}

TEST(UnitParts, OfSeveralWeightsInPieces) {
  for (const std::string scheme :
       {"int4-asym-g32", "lut3-row-g64", "int8-sym-row", "nvfp4", "fp8-row"}) {
    const UnitCase side_by_side(scheme, {40, 100, 77}, 416);
    for (const std::int64_t step : {64, 128, 256}) {
      expect_packed(side_by_side, step, scheme);
    }
    expect_packed(UnitCase(scheme, {72, 72}, 416, true), 64, scheme + " in pairs");
  }
}

TEST(UnitParts, EveryStoredScaleIsExact) {
  std::uint8_t row[2] = {};  // a scale, its unit
  RawRows raw;
  raw.bytes = row;
  raw.unit = 1;
  for (std::uint8_t byte = 0; byte <= formats::kE8m0Bias + formats::kMaxMxExponent; ++byte) {
    row[0] = byte;
    raw.scale_kind = StoredScale::kE8m0;
    EXPECT_EQ(core::to_float(core::Bf16{raw.scale(0, 0)}), formats::e8m0_to_float(byte));
  }
  for (std::uint8_t byte = 0; byte <= formats::kE4m3Largest; ++byte) {
    row[0] = byte;
    raw.scale_kind = StoredScale::kE4m3;
    EXPECT_EQ(core::to_float(core::Fp16{raw.scale(0, 0)}), formats::e4m3_to_float(byte));
  }
  raw.scale_kind = StoredScale::kUnits;
  for (std::uint8_t unit = 1; unit <= formats::kLargestUnit; ++unit) {
    for (std::uint8_t bits = 0; bits < 128; ++bits) {
      row[0] = bits;
      row[1] = unit;
      const float expected = formats::scale_of_units(bits, formats::unit_value(unit));
      EXPECT_EQ(core::to_float(core::Fp16{raw.scale(0, 0)}), expected) << int{unit};
    }
  }
}

TEST(UnitParts, CodesOfATileFillItOnce) {
  for (const CodeKind kind : {CodeKind::kInt4, CodeKind::kInt8, CodeKind::kBook, CodeKind::kInt3,
                              CodeKind::kInt2, CodeKind::kBook3, CodeKind::kBook2}) {
    const auto all = static_cast<unsigned>(bits_of(kind));
    const unsigned bits = has_planes(kind) ? 2 : all;
    std::vector<int> met(16 * 128 * all);
    const auto meet = [&](const CodePlace& place, unsigned count) {
      ASSERT_LT(place.vector, code_vectors(kind));
      ASSERT_LT(place.word, 4u);
      ASSERT_LT(place.shift, 32u);
      ASSERT_EQ(place.shift % count, 0u);
      for (unsigned bit = 0; bit < count; ++bit) {
        ++met[128 * place.vector + 32 * place.word + place.shift + bit];
      }
    };
    for (unsigned row = 0; row < 16; ++row) {
      for (unsigned k = 0; k < 128; ++k) {
        meet(code_place(kind, row, k), bits);
        if (all == 3) {
          meet(third_bit_place(kind, row, k), 1);
        }
      }
    }
    EXPECT_EQ(met, std::vector<int>(met.size(), 1));
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
