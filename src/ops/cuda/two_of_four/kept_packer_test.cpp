#include "ops/cuda/two_of_four/kept_packer.h"

#include <cstring>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/packed/decoded_rows_for_tests.h"
#include "ops/cuda/two_of_four/kept_weights_for_tests.h"

// The layout, read back as a warp reads it: lane by lane, as the left operand of mma.sp m16n8k32.
namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

template <typename T>
T at(const std::byte* from, int bytes) {
  T value;
  std::memcpy(&value, from + bytes, sizeof(value));
  return value;
}

float half(std::uint32_t bits) {
  return core::to_float(core::Fp16{static_cast<std::uint16_t>(bits)});
}

/// What a unit holds: [16 rows][128 inputs]. Operands and indices stand as the PTX ISA says.
std::vector<float> read_unit(const std::byte* unit, const KeptForm& form) {
  std::vector<float> values(std::size_t{kKeptRows} * kKeptUnitInputs);
  for (int lane = 0; lane < kKeptLanes; ++lane) {
    const int g = lane / 4;
    for (int block = 0; block < kKeptBlocks; ++block) {
      for (int pair = 0; pair < 4; ++pair) {
        const bool lower = pair % 2 == 1;  // row g + 8
        const int four = lane % 4 + pair / 2 * 4;
        // Of inputs 16 i and on of the block the lane 4 g + 2 (block % 2) + i has the indices.
        const int source = g * 4 + block % 2 * 2 + four / 4;
        const auto indices = at<std::uint32_t>(unit, form.indices() + source * 8 + block / 2 * 4) >>
                             (lower ? 16 : 0) >> four % 4 * 4;
        for (int which = 0; which < 2; ++which) {
          const int input = static_cast<int>(indices >> 2 * which & 3u);
          float value = 0;
          if (form.bits == 16) {
            value =
                half(at<std::uint32_t>(unit, kept_word_at(lane, block * 4 + pair)) >> 16 * which);
          } else {
            const int word = form.bits == 4 ? block : 2 * block + pair / 2;
            const int shift = form.bits == 4 ? 4 * pair : 8 * (pair % 2);
            const auto code =
                at<std::uint32_t>(unit, kept_word_at(lane, word)) >> (shift + 16 * which) &
                ((1u << form.bits) - 1);
            const int part = g * form.scales + (form.scales == 1 ? 0 : block);
            const float scale =
                half(at<std::uint16_t>(unit, form.scales_at() + 4 * part + (lower ? 2 : 0)));
            const auto zero = at<std::uint8_t>(unit, form.zeros_at() + 2 * part + (lower ? 1 : 0));
            value = scale * static_cast<float>(static_cast<int>(code) - zero);
          }
          values[static_cast<std::size_t>((g + (lower ? 8 : 0)) * kKeptUnitInputs +
                                          block * kKeptInputs + four * 4 + input)] += value;
        }
      }
    }
  }
  return values;
}

/// The same of units for INT8 products: the places of tile order become inputs again.
std::vector<float> read_integer_unit(const std::byte* unit, const KeptForm& form) {
  constexpr int kOfPlace[] = {0, 2, 1, 3};
  std::vector<float> values(std::size_t{kKeptRows} * kKeptUnitInputs);
  for (int row = 0; row < kKeptRows; ++row) {
    const int g = row % 8;
    const bool lower = row >= 8;
    const float scale = half(at<std::uint16_t>(unit, form.scales_at() + 4 * g + (lower ? 2 : 0)));
    const auto zero = at<std::uint8_t>(unit, form.zeros_at() + 2 * g + (lower ? 1 : 0));
    for (int block = 0; block < kIntegerBlocks; ++block) {
      for (int stored = 0; stored < kIntegerInputs / 2; ++stored) {  // codes of the row, in order
        const int register_of_lane = stored / 16 * 2 + (lower ? 1 : 0);
        const int lane = 4 * g + stored % 16 / 4;
        const int byte = stored % 4;
        const int four = stored / 2;
        const auto indices = at<std::uint32_t>(
            unit, form.indices() + 8 * (4 * g + four / 8 * 2 + (lower ? 1 : 0)) + 4 * block);
        const int place = static_cast<int>(indices >> (four % 8 * 4 + stored % 2 * 2) & 3u);
        float value = 0;
        if (form.bits == 8) {
          value = at<std::int8_t>(unit, kept_word_at(lane, 4 * block + register_of_lane) + byte);
        } else {
          const auto both =
              at<std::uint8_t>(unit, kept_word_at(lane, 2 * block + register_of_lane / 2) + byte);
          value = static_cast<float>((lower ? both >> 4 : both & 15) - zero);
        }
        // Tile order: place 16 e + 4 t + n of 32 is input 8 t + 4 e + {0, 2, 1, 3}[n].
        const int of_32 = four % 8;
        const int input =
            64 * block + four / 8 * 32 + of_32 % 4 * 8 + of_32 / 4 * 4 + kOfPlace[place];
        values[static_cast<std::size_t>(row * kKeptUnitInputs + input)] += scale * value;
      }
    }
  }
  return values;
}

/// Rows [n][k]; what is behind the last row or input must be 0.
std::vector<float> read_back(const PackedKept& packed) {
  std::vector<float> values(static_cast<std::size_t>(packed.n * packed.k));
  const std::int64_t units = packed.units_along_k();
  const std::int64_t rows = std::ssize(packed.units) / (units * packed.form.bytes()) * kKeptRows;
  for (std::int64_t row = 0; row < rows; row += kKeptRows) {
    for (std::int64_t u = 0; u < units; ++u) {
      const std::byte* const bytes =
          packed.units.data() + kept_unit(row / kKeptRows, u, units) * packed.form.bytes();
      const std::vector<float> unit = packed.form.integers ? read_integer_unit(bytes, packed.form)
                                                           : read_unit(bytes, packed.form);
      for (std::int64_t i = 0; i < std::ssize(unit); ++i) {
        const std::int64_t n = row + i / kKeptUnitInputs;
        const std::int64_t k = u * kKeptUnitInputs + i % kKeptUnitInputs;
        const float value = unit[static_cast<std::size_t>(i)];
        if (n < packed.n && k < packed.k) {
          values[static_cast<std::size_t>(n * packed.k + k)] = value;
        } else {
          EXPECT_EQ(value, 0.0f) << "row " << n << " input " << k;
        }
      }
    }
  }
  return values;
}

TEST(KeptPacker, HoldsTheWeight) {
  core::ThreadPool pool(2);
  for (const std::string scheme :
       {"int4-sym-g128-2of4", "int4-asym-g32-2of4", "int4-asym-g96-2of4", "int4-asym-row-2of4",
        "int8-sym-row-2of4", "int8-asym-g64-2of4", "int8-asym-g256-2of4", "f16-2of4",
        "int8-sym-row-2of4-a8", "int4-asym-row-2of4-a8", "int4-asym-g128-2of4-a8",
        "int8-sym-g256-2of4-a8"}) {
    for (const auto& [n, k] : {std::pair{16, 128}, {1, 4}, {33, 260}, {80, 1024}}) {
      SCOPED_TRACE(scheme + " " + std::to_string(n) + " x " + std::to_string(k));
      const PackedWeight weight = kept_weight(scheme, n, k, 3);
      const UnitRows alone{{&weight}, false};
      const PackedKept packed = pack_kept(alone, pool);
      EXPECT_EQ(read_back(packed), decoded(alone));
      EXPECT_EQ(std::ssize(packed.units),
                (n + 63) / 64 * 4 * ((k + 127) / 128) * packed.form.bytes());
    }
  }
}

TEST(KeptPacker, HoldsWeightsSideBySideAndInPairs) {
  core::ThreadPool pool(1);
  const PackedWeight gate = kept_weight("int4-asym-g128-2of4", 40, 320, 5);
  const PackedWeight up = kept_weight("int4-asym-g128-2of4", 40, 320, 6);
  for (const bool pairs : {false, true}) {
    const UnitRows both{{&gate, &up}, pairs};
    EXPECT_EQ(read_back(pack_kept(both, pool)), decoded(both)) << pairs;
  }
}

// A device may do anything with indices that do not ascend.
TEST(KeptPacker, IndicesAscendBehindTheEndToo) {
  core::ThreadPool pool(1);
  for (const char* scheme : {"int8-sym-row-2of4", "int8-sym-row-2of4-a8"}) {
    const PackedWeight weight = kept_weight(scheme, 17, 132, 5);
    const PackedKept packed = pack_kept({{&weight}, false}, pool);
    for (std::int64_t unit = 0; unit < 8; ++unit) {
      const std::byte* const bytes =
          packed.units.data() + unit * packed.form.bytes() + packed.form.indices();
      for (int i = 0; i < 8 * kKeptLanes; ++i) {
        for (const int pair :
             {std::to_integer<int>(bytes[i]) & 15, std::to_integer<int>(bytes[i]) >> 4}) {
          EXPECT_LT(pair & 3, pair >> 2) << "unit " << unit << " byte " << i;
        }
      }
    }
  }
}

TEST(KeptPacker, RefusesWhatItCannotHold) {
  const auto refusal = [](const char* scheme) {
    const Refusal refused = kept_units_refusal(formats::parse_scheme(scheme));
    return refused ? refused->text() : "";
  };
  EXPECT_EQ(refusal("int4-asym-g32-2of4"), "");
  EXPECT_EQ(refusal("f16-2of4"), "");
  EXPECT_NE(refusal("bf16-2of4"), "");
  EXPECT_EQ(refusal("int8-sym-row-2of4-a8"), "");
  EXPECT_NE(refusal("int8-asym-row-2of4-a8"), "");
  EXPECT_NE(refusal("int4-sym-g128-2of4-a8g128"), "");
  EXPECT_NE(refusal("int4-asym-g32-2of4-a8"), "");
  EXPECT_NE(refusal("int4-asym-g32"), "");
  EXPECT_NE(refusal("f16"), "");
  core::ThreadPool pool(1);
  const PackedWeight weight = kept_weight("int4-sym-g32-2of4-a8", 16, 128, 5);
  EXPECT_THROW(pack_kept({{&weight}, false}, pool), core::Error);
}

TEST(KeptPacker, RefusesRowsWhoseSumsAreNotExact) {
  core::ThreadPool pool(1);
  constexpr std::int64_t kMost = std::int64_t{1} << 18;
  const PackedWeight longest = kept_weight("int8-sym-row-2of4-a8", 1, kMost, 5);
  EXPECT_NO_THROW(pack_kept({{&longest}, false}, pool));
  const PackedWeight longer = kept_weight("int8-sym-row-2of4-a8", 1, kMost + 4, 5);
  EXPECT_THROW(pack_kept({{&longer}, false}, pool), core::Error);
  const PackedWeight floats = kept_weight("int8-sym-row-2of4", 1, kMost + 4, 5);
  EXPECT_NO_THROW(pack_kept({{&floats}, false}, pool));
}

}  // namespace
}  // namespace nibble::ops::cuda
