#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/int8_table.h"

namespace nibble::ops::cpu {
namespace {

// Two rows of 40 inputs, group 32, checked by hand against the drawing in tile_layout.h.
TEST(Pack, PutsNibblesWhereTheDrawingSays) {
  const formats::Scheme scheme = formats::parse_scheme("int4-sym-g32");
  formats::PackedWeightBuilder builder(scheme, 2, 40);
  std::vector<std::uint8_t> codes(40);
  for (std::size_t k = 0; k < codes.size(); ++k) {
    codes[k] = static_cast<std::uint8_t>(k % 16);
  }
  for (std::int64_t row = 0; row < 2; ++row) {
    builder.set_codes(row, codes);
    builder.set_group(row, 0, {0.5f, 8});
    builder.set_group(row, 1, {0.25f, 8});
    std::reverse(codes.begin(), codes.end());
  }
  core::ThreadPool pool(1);
  const PackedLinear linear = PackedLinear::pack(builder.finish(), pool);
  const TiledWeight& w = linear.tiled();
  EXPECT_EQ(w.tile_count, 1);
  EXPECT_EQ(w.groups, 2);
  EXPECT_EQ(w.codes_offset, 64 + 2 * 32);
  EXPECT_EQ(w.tile_bytes, w.codes_offset + 2 * 4 * 64);
  EXPECT_EQ(linear.bytes(), w.tile_bytes);
  const std::uint8_t* lines = w.tiles + w.codes_offset;
  EXPECT_EQ(lines[0], 0x40);       // row 0: input 4 in the high nibble, input 0 in the low
  EXPECT_EQ(lines[3], 0x73);       // inputs 7 and 3
  EXPECT_EQ(lines[64], 0xc8);      // next line: inputs 12 and 8
  EXPECT_EQ(lines[4], 0x37);       // row 1 is reversed: input 4 is 35 % 16, input 0 is 39 % 16
  EXPECT_EQ(lines[8], 0x00);       // rows that do not exist
  EXPECT_EQ(lines[4 * 64], 0x40);  // group 1: inputs 36 and 32
  EXPECT_EQ(lines[5 * 64], 0x00);  // padding
  float unit = 0.0f;
  std::memcpy(&unit, w.tiles, sizeof(unit));
  EXPECT_EQ(unit, 1.0f);
  const auto* scales = reinterpret_cast<const core::Fp16*>(w.tiles + w.scales_offset);
  EXPECT_EQ(core::to_float(scales[0]), 0.5f);
  EXPECT_EQ(core::to_float(scales[16 + 1]), 0.25f);
  EXPECT_EQ(core::to_float(scales[2]), 0.0f);
}

// One row of 32 inputs in 3 bits: codes count, but those of quad 6 and 7 are 3 and 6 in turns.
TEST(Pack, PutsThreeBitsWhereTheDrawingSays) {
  const formats::Scheme scheme = formats::parse_scheme("int3-sym-g32");
  formats::PackedWeightBuilder builder(scheme, 1, 32);
  std::vector<std::uint8_t> codes(32);
  for (std::size_t k = 0; k < codes.size(); ++k) {
    codes[k] = static_cast<std::uint8_t>(k < 24 ? k % 8 : k % 2 == 0 ? 3 : 6);
  }
  builder.set_codes(0, codes);
  builder.set_group(0, 0, {0.5f, 4});
  core::ThreadPool pool(1);
  const PackedLinear linear = PackedLinear::pack(builder.finish(), pool);
  const TiledWeight& w = linear.tiled();
  EXPECT_EQ(w.codes_offset, 64 + 64);
  EXPECT_EQ(w.tile_bytes, w.codes_offset + 3 * 64);
  EXPECT_EQ(w.zero, 4);
  const std::uint8_t* lines = w.tiles + w.codes_offset;
  EXPECT_EQ(lines[0], 0b11'100'000);       // inputs 24 (its low bits), 4, 0
  EXPECT_EQ(lines[1], 0b10'101'001);       // 25, 5, 1
  EXPECT_EQ(lines[64], 0b11'100'000);      // 28, 12, 8
  EXPECT_EQ(lines[2 * 64], 0b00'100'000);  // 28 and 24 (their high bits), 20, 16
  EXPECT_EQ(lines[2 * 64 + 3], 0b11'111'011);
  EXPECT_EQ(lines[4], 0);
}

TEST(Pack, PutsTwoBitsWhereTheDrawingSays) {
  const formats::Scheme scheme = formats::parse_scheme("int2-asym-g32");
  formats::PackedWeightBuilder builder(scheme, 2, 40);
  std::vector<std::uint8_t> codes(40);
  for (std::size_t k = 0; k < codes.size(); ++k) {
    codes[k] = static_cast<std::uint8_t>((k / 4 + k) % 4);  // quad q, input i: q + i
  }
  builder.set_codes(1, codes);
  builder.set_group(1, 0, {0.5f, 1});
  builder.set_group(1, 1, {0.5f, 3});
  core::ThreadPool pool(1);
  const PackedLinear linear = PackedLinear::pack(builder.finish(), pool);
  const TiledWeight& w = linear.tiled();
  EXPECT_EQ(w.codes_offset, 64 + 64 + 64);
  EXPECT_EQ(w.tile_bytes, w.codes_offset + 2 * 2 * 64);
  EXPECT_EQ(w.tiles[w.zeros_offset + 16 + 1], 3);
  const std::uint8_t* lines = w.tiles + w.codes_offset;
  EXPECT_EQ(lines[0], 0);                       // row 0
  EXPECT_EQ(lines[4], 0b11'10'01'00);           // row 1: inputs 12, 8, 4, 0
  EXPECT_EQ(lines[5], 0b00'11'10'01);           // 13, 9, 5, 1
  EXPECT_EQ(lines[64 + 7], 0b10'01'00'11);      // 31, 27, 23, 19
  EXPECT_EQ(lines[2 * 64 + 4], 0b00'00'01'00);  // 36, 32
  EXPECT_EQ(lines[3 * 64 + 4], 0);              // padding
}

TEST(Pack, MemoryIsTheFormatsBitsAndLittleMore) {
  core::ThreadPool pool(2);
  const auto bits = [&](const char* scheme) {
    const PackedLinear linear =
        PackedLinear::pack(testing::random_weight(scheme, 64, 1024, 1), pool);
    return 8.0 * static_cast<double>(linear.bytes()) / (64.0 * 1024.0);
  };
  EXPECT_NEAR(bits("int4-sym-g32"), 4.5, 0.04);
  EXPECT_NEAR(bits("int4-sym-g128"), 4.125, 0.04);
  EXPECT_NEAR(bits("int4-asym-g128"), 4.1875, 0.04);
  EXPECT_NEAR(bits("int8-sym-g128"), 8.125, 0.04);
  EXPECT_NEAR(bits("lut4-row-g128"), 4.25, 0.04);
  EXPECT_NEAR(bits("int3-sym-g128"), 3.125, 0.04);
  EXPECT_NEAR(bits("int3-asym-g128"), 3.1875, 0.04);
  EXPECT_NEAR(bits("int2-sym-g128"), 2.125, 0.04);
  EXPECT_NEAR(bits("lut3-row-g128"), 3.1875, 0.04);
  EXPECT_NEAR(bits("lut2-row-g128"), 2.15625, 0.04);
  EXPECT_NEAR(bits("lut2-matrix-g64"), 2.25, 0.04);
  EXPECT_NEAR(bits("int2-min-g16-s8"), 3.125, 0.04);
  EXPECT_NEAR(bits("int3-sym-g16-s8"), 3.5625, 0.04);
}

TEST(Pack, RefusesADenseWeight) {
  core::ThreadPool pool(1);
  EXPECT_THROW(PackedLinear::pack(
                   formats::dense_weight(core::Tensor::zeros(core::DType::kF32, {4, 4})), pool),
               core::Error);
}

TEST(Pack, GroupsOfActivations) {
  const auto needs = [](const char* scheme, std::int64_t k) {
    return input_needs(formats::parse_scheme(scheme), k);
  };
  EXPECT_EQ(needs("int4-sym-g32", 2048), (InputNeeds{32, {8, true, 32}}));
  EXPECT_EQ(needs("int4-sym-g256", 2048), (InputNeeds{256, {8, true, 256}}));
  EXPECT_EQ(needs("int4-sym-g512", 2048), (InputNeeds{128, {8, true, 128}}));
  EXPECT_EQ(needs("int4-sym-row", 2048), (InputNeeds{128, {8, true, 128}}));
  EXPECT_EQ(needs("int4-sym-row", 2048 + 64), (InputNeeds{64, {8, true, 64}}));
  EXPECT_EQ(needs("int4-sym-row", 96), (InputNeeds{32, {8, true, 32}}));
  EXPECT_EQ(needs("int4-sym-row", 1000), (InputNeeds{128, {8, true, 128}}));
  EXPECT_EQ(needs("int8-sym-row-a8", 2048), (InputNeeds{2048, {8}}));
  EXPECT_EQ(needs("int8-sym-row-a8", 65536), (InputNeeds{65536, {8}}));
  EXPECT_EQ(needs("int8-sym-row-a8", 65536 + 64), (InputNeeds{64, {8}}));  // sums may be too large
  EXPECT_EQ(needs("int8-sym-row-2of4-a8", 2048), (InputNeeds{2048, {8}}));
  EXPECT_EQ(needs("int8-sym-row-a8", 640), (InputNeeds{640, {8}}));
  EXPECT_EQ(needs("mxfp4", 2048), (InputNeeds{32, {8, true, 32}}));
  EXPECT_EQ(needs("nvfp4", 2048), (InputNeeds{16, {8, true, 16}}));
  EXPECT_EQ(needs("int4-sym-g128-a4", 2048), (InputNeeds{128, {4}}));
  EXPECT_EQ(needs("int4-sym-g128-a4g32", 2048), (InputNeeds{32, {4, true, 32}}));
  EXPECT_EQ(needs("int4-sym-g32-a4g128c0.9", 2048), (InputNeeds{32, {4, true, 128, 0.9f}}));
  EXPECT_EQ(needs("int4-sym-row-a4g512", 2048), (InputNeeds{128, {4, true, 512}}));
  EXPECT_EQ(needs("int4-sym-row-a4g4096", 2048), (InputNeeds{2048, {4}}));
}

TEST(Int8Table, IsExactForTheHalvesOfFp4) {
  const std::vector<float> book = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                   -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  const Int8Table table = int8_table(book);
  EXPECT_EQ(table.unit, 0.5f);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(table.unit * table.entries[i], book[i]);
  }
}

TEST(Int8Table, RoundsOtherBooksToHalfAStep) {
  core::Random random(3);
  std::vector<float> book(16);
  for (float& value : book) {
    value = random.normal();
  }
  const Int8Table table = int8_table(book);
  const float largest = std::fabs(*std::max_element(
      book.begin(), book.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(table.unit * table.entries[i], book[i], largest / 254 * 1.0001);
  }
  EXPECT_EQ(*std::max_element(table.entries.begin(), table.entries.end(),
                              [](int a, int b) { return std::abs(a) < std::abs(b); }) %
                127,
            0);
}

// Both ends of the book stand eight codes apart from an entry of the other sign.
TEST(Int8Table, LosesAStepWhereNoDeviceHasATableForBothEnds) {
  std::vector<float> book(16);
  for (std::size_t i = 0; i < 16; ++i) {
    book[i] = static_cast<float>(i) / 7.5f - 1.0f;
  }
  const Int8Table table = int8_table(book);
  EXPECT_EQ(table.entries[0], -126);
  EXPECT_EQ(table.entries[15], 126);
  book[7] = 0.0f;
  EXPECT_EQ(int8_table(book).entries[15], 127);
  book[7] = -0.1f;
  book[0] = -0.99f;
  EXPECT_EQ(int8_table(book).entries[15], 127);
}

TEST(Int8Table, RepeatsTheLastEntryOfAShorterBook) {
  const Int8Table table = int8_table(std::vector<float>{-3, -1, 0, 4});
  for (std::size_t i = 3; i < 16; ++i) {
    EXPECT_EQ(table.unit * table.entries[i], 4.0f) << i;
  }
  EXPECT_EQ(table.unit * table.entries[0], -3.0f);
}

TEST(Int8Table, EmptyAndVanishingBooksAreZeros) {
  for (const float value : {0.0f, 1e-45f}) {
    std::vector<float> book(16, value);
    const Int8Table table = int8_table(book);
    EXPECT_NEAR(table.unit * table.entries[0], value, 1e-44);
  }
}

// E8M0 reaches further than FP16: rows at both ends of the range, and one that spans a part of it.
TEST(Pack, MicroscalingKeepsItsWholeRange) {
  const formats::Scheme scheme = formats::parse_scheme("mxfp4");
  core::ThreadPool pool(1);
  formats::PackedWeightBuilder builder(scheme, 3, 64);
  std::vector<std::uint8_t> codes(64, 3);
  const std::array<std::array<int, 2>, 3> exponents = {{{-120, -118}, {100, 110}, {-20, 10}}};
  for (std::int64_t row = 0; row < 3; ++row) {
    builder.set_codes(row, codes);
    for (std::size_t g = 0; g < 2; ++g) {
      builder.set_group(row, static_cast<std::int64_t>(g),
                        {std::ldexp(1.0f, exponents[static_cast<std::size_t>(row)][g]), 0});
    }
  }
  const formats::PackedWeight weight = builder.finish();
  const PackedLinear linear = PackedLinear::pack(weight, pool);
  QuantizedInput input;
  const std::vector<float> x(64, 1.0f);
  quantize_input(x.data(), 1, 64, 64, {32, {8, true, 32}}, input, pool);
  std::vector<float> y(3);
  const PackedLinear* part = &linear;
  packed_linear({&part, 1}, input, y.data(), 3, pool);
  EXPECT_EQ(testing::compare(y, packed_linear_reference(weight, input), 2).bad, 0);
}

// For formats that run exactly, the reference is what decode_row says.
TEST(Reference, AgreesWithDecodeRow) {
  core::ThreadPool pool(1);
  for (const char* scheme :
       {"int4-sym-g32", "int4-asym-g64", "int3-asym-g64", "int2-sym-g32", "int8-asym-row",
        "lut4-fp4-g64", "mxfp4", "nvfp4", "lut4-nf4-g64", "lut4-row-g64", "lut4-matrix-g64",
        "lut3-row-g64", "lut2-matrix-g64"}) {
    const formats::PackedWeight weight = testing::random_weight(scheme, 5, 192, 9);
    const InputNeeds needs = input_needs(weight.scheme, 192);
    const std::vector<float> x = testing::random_input(2, 192, 4);
    QuantizedInput input;
    quantize_input(x.data(), 2, 192, 192, needs, input, pool);
    const PackedReference reference = packed_linear_reference(weight, input);
    const bool rounded =
        formats::has_book(weight.scheme) && weight.scheme.code.book != formats::Book::kE2m1;
    std::vector<float> w(192);
    for (std::int64_t row = 0; row < 5; ++row) {
      formats::decode_row(weight, row, w);
      const auto book = formats::is_integer(weight.scheme) ? formats::BookValues()
                                                           : formats::book_of(weight, row);
      const float largest = std::accumulate(book.begin(), book.end(), 0.0f, [](float a, float b) {
        return std::max(a, std::fabs(b));
      });
      std::vector<float> scales(
          static_cast<std::size_t>(formats::groups_per_row(weight.scheme, 192)));
      formats::unpack_scales(weight, row, scales);
      for (std::int64_t token = 0; token < 2; ++token) {
        double sum = 0.0;
        double bound = 0.0;
        for (std::int64_t k = 0; k < 192; ++k) {
          const double a =
              input.scales(token)[k / needs.group] *
              input.codes(token)[k / needs.group * input.group_stride() + k % needs.group];
          sum += a * static_cast<double>(w[static_cast<std::size_t>(k)]);
          bound += std::fabs(a) * (1e-7 * std::fabs(w[static_cast<std::size_t>(k)]) +
                                   (rounded ? 1.001 * largest / 254 *
                                                  scales[static_cast<std::size_t>(
                                                      k / formats::group_size(weight.scheme, 192))]
                                            : 0.0));
        }
        EXPECT_NEAR(reference.y[static_cast<std::size_t>(token * 5 + row)], sum, bound) << scheme;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
