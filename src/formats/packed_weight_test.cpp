#include "formats/packed_weight.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/nv/e4m3.h"
#include "formats/row_unit.h"
#include "formats/stored_parts.h"

namespace nibble::formats {
namespace {

using core::DType;
using core::Tensor;

const std::vector<std::string> kCodedSchemes = {"int2-sym-g32",
                                                "int3-sym-g32",
                                                "int4-sym-g32",
                                                "int8-sym-g32",
                                                "int2-asym-g32",
                                                "int3-asym-g32",
                                                "int4-asym-g32",
                                                "int8-asym-g32",
                                                "int4-asym-row",
                                                "lut4-nf4-g32",
                                                "lut4-fp4-g32",
                                                "lut4-af4-g32",
                                                "lut4-nf4-row",
                                                "lut4-row-g32",
                                                "lut4-matrix-g32",
                                                "mxfp4",
                                                "nvfp4",
                                                "lut3-row-g32",
                                                "lut2-matrix-row",
                                                "int4-asym-g32-s7",
                                                "lut4-matrix-g32-s7"};

// A weight with random contents in every part.
PackedWeight random_weight(const std::string& text, std::int64_t n, std::int64_t k) {
  const Scheme scheme = parse_scheme(text);
  core::Random random(7);
  PackedWeightBuilder builder(scheme, n, k);
  const std::int64_t books = scheme.code.book == Book::kPerRow ? n
                             : has_learned_book(scheme)        ? 1
                                                               : 0;
  for (std::int64_t row = 0; row < books; ++row) {
    std::vector<float> book(static_cast<std::size_t>(book_size(scheme)));
    for (float& value : book) {
      value = core::to_float(core::to_fp16(random.normal()));
    }
    builder.set_book(row, book);
  }
  if (scheme.scale.type == ScaleType::kE4m3) {
    builder.set_global(0.003f);
  }
  for (std::int64_t row = 0; row < n; ++row) {
    const float unit = unit_value(static_cast<std::uint8_t>(1 + row % kLargestUnit));
    if (scheme.scale.type == ScaleType::kUnits) {
      builder.set_unit(row, static_cast<std::uint8_t>(1 + row % kLargestUnit));
    }
    for (std::int64_t group = 0; group < groups_per_row(scheme, k); ++group) {
      const int middle = 1 << (scheme.code.bits - 1);
      const float scale = scheme.scale.type == ScaleType::kE4m3
                              ? e4m3_to_float(static_cast<std::uint8_t>(random.below(127))) * 0.003f
                          : scheme.scale.type == ScaleType::kUnits
                              ? scale_of_units(units_of(static_cast<double>(random.normal()) * 20 *
                                                            static_cast<double>(unit),
                                                        unit),
                                               unit)
                          : scheme.scale.type == ScaleType::kE8m0
                              ? std::ldexp(1.0f, static_cast<int>(random.below(20)) - 10)
                              : static_cast<float>(random.below(2047) - 1023) / 64;
      const int zero = !has_zeros(scheme) ? middle : static_cast<int>(random.below(2 * middle));
      builder.set_group(row, group, {scale, zero});
    }
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(k));
    for (auto& code : codes) {
      code = static_cast<std::uint8_t>(random.below(1 << scheme.code.bits));
    }
    builder.set_codes(row, codes);
  }
  return builder.finish();
}

// The meaning of the parts, one weight at a time from the unpacked pieces.
float value_at(const PackedWeight& weight, std::int64_t row, std::int64_t input) {
  const auto groups = static_cast<std::size_t>(groups_per_row(weight.scheme, weight.k));
  const auto group = static_cast<std::size_t>(input / group_size(weight.scheme, weight.k));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(weight.k));
  std::vector<std::uint8_t> zeros(groups);
  std::vector<float> scales(groups);
  unpack_codes(weight, row, codes);
  unpack_zeros(weight, row, zeros);
  unpack_scales(weight, row, scales);
  const std::uint8_t code = codes[static_cast<std::size_t>(input)];
  if (is_integer(weight.scheme)) {
    return scales[group] * static_cast<float>(code - zeros[group]);
  }
  return scales[group] * book_of(weight, row)[code];
}

TEST(PackedWeight, DecodesWhatThePiecesSay) {
  for (const std::string& scheme : kCodedSchemes) {
    for (const std::int64_t k : {32, 96, 2080}) {  // 2080: more than one stretch of decode_row
      const PackedWeight weight = random_weight(scheme, 3, k);
      validate(weight, "test");
      std::vector<float> values(static_cast<std::size_t>(k));
      decode_row(weight, 1, values);
      for (const std::int64_t input : {std::int64_t{0}, std::int64_t{1}, k / 2, k - 1}) {
        EXPECT_EQ(values[static_cast<std::size_t>(input)], value_at(weight, 1, input))
            << scheme << " " << k << " " << input;
      }
    }
  }
}

TEST(PackedWeight, ShortLastGroupsAndOddRowsWork) {
  for (const std::string& scheme : kCodedSchemes) {
    if (scheme == "mxfp4" || scheme == "nvfp4") {
      continue;
    }
    for (const std::int64_t k : {1, 7, 33, 65, 1031}) {
      const PackedWeight weight = random_weight(scheme, 2, k);
      std::vector<float> values(static_cast<std::size_t>(k));
      for (const std::int64_t row : {0, 1}) {
        decode_row(weight, row, values);
        EXPECT_EQ(values.back(), value_at(weight, row, k - 1)) << scheme << " " << k;
        EXPECT_EQ(values.front(), value_at(weight, row, 0)) << scheme << " " << k;
      }
    }
  }
}

TEST(PackedWeight, BuilderKeepsCodesAndParameters) {
  const Scheme scheme = parse_scheme("int3-asym-g4");
  PackedWeightBuilder builder(scheme, 1, 10);
  const std::vector<std::uint8_t> codes = {0, 1, 2, 3, 4, 5, 6, 7, 0, 7};
  builder.set_codes(0, codes);
  builder.set_group(0, 0, {0.5f, 7});
  builder.set_group(0, 1, {-2.0f, 1});
  builder.set_group(0, 2, {1.0f, 5});
  builder.set_group(0, 1, {-2.0f, 2});  // again
  const PackedWeight weight = builder.finish();
  std::vector<float> values(10);
  decode_row(weight, 0, values);
  EXPECT_EQ(values, (std::vector<float>{-3.5f, -3, -2.5f, -2, -4, -6, -8, -10, -5, 2}));
}

TEST(PackedWeight, BuilderRefusesWhatItCannotStore) {
  const auto refused = [](const std::string& scheme, std::int64_t k,
                          const std::function<void(PackedWeightBuilder&)>& action) {
    try {
      PackedWeightBuilder builder(parse_scheme(scheme), 2, k);
      action(builder);
    } catch (const core::Error&) {
      return true;
    }
    return false;
  };
  const std::vector<std::uint8_t> codes(64, 15);
  const std::vector<float> book(16, 1.0f);
  using Builder = PackedWeightBuilder;
  EXPECT_FALSE(refused("int4-sym-g32", 64, [&](Builder& b) { b.set_codes(1, codes); }));
  EXPECT_TRUE(refused("int4-sym-g32", 64, [&](Builder& b) { b.set_codes(2, codes); }));
  EXPECT_TRUE(refused("int4-sym-g32", 64, [&](Builder& b) { b.set_codes(-1, codes); }));
  EXPECT_TRUE(refused("int4-sym-g32", 65, [&](Builder& b) { b.set_codes(0, codes); }));
  EXPECT_TRUE(refused("int3-sym-g32", 64, [&](Builder& b) { b.set_codes(0, codes); }));
  EXPECT_FALSE(refused("int4-sym-g32", 64, [](Builder& b) { b.set_group(0, 1, {0.5f, 8}); }));
  EXPECT_TRUE(refused("int4-sym-g32", 64, [](Builder& b) { b.set_group(0, 2, {0.5f, 8}); }));
  EXPECT_TRUE(refused("int4-sym-g32", 64, [](Builder& b) { b.set_group(0, 0, {0.1f, 8}); }));
  EXPECT_TRUE(refused("int4-sym-g32", 64, [](Builder& b) { b.set_group(0, 0, {1e9f, 8}); }));
  EXPECT_TRUE(refused("int4-sym-g32", 64, [](Builder& b) { b.set_group(0, 0, {0.5f, 0}); }));
  EXPECT_TRUE(refused("int4-asym-g32", 64, [](Builder& b) { b.set_group(0, 0, {0.5f, 16}); }));
  EXPECT_TRUE(refused("int4-asym-g32", 64, [](Builder& b) { b.set_group(0, 0, {0.5f, -1}); }));
  for (const float scale : {3.0f, 0.0f, -1.0f, 0x1p126f, 0x1p-128f, std::nanf("")}) {
    EXPECT_TRUE(refused("mxfp4", 64, [scale](Builder& b) { b.set_group(0, 0, {scale, 0}); }));
  }
  EXPECT_FALSE(refused("mxfp4", 64, [](Builder& b) { b.set_group(0, 0, {0x1p-127f, 0}); }));
  EXPECT_TRUE(refused("mxfp4", 48, [](Builder&) {}));
  EXPECT_TRUE(refused("f16", 64, [](Builder&) {}));
  EXPECT_TRUE(refused("lut4-nf4-g32", 64, [&](Builder& b) { b.set_book(0, book); }));
  EXPECT_TRUE(refused("lut4-matrix-g32", 64, [&](Builder& b) { b.set_book(1, book); }));
  EXPECT_FALSE(refused("lut4-row-g32", 64, [&](Builder& b) { b.set_book(1, book); }));
  const std::vector<float> infinite(16, std::numeric_limits<float>::infinity());
  EXPECT_TRUE(refused("lut4-row-g32", 64, [&](Builder& b) {
    b.set_book(0, infinite);
    (void)b.finish();
  }));
  const std::vector<float> not_fp16(16, 0.1f);
  EXPECT_TRUE(refused("lut4-row-g32", 64, [&](Builder& b) { b.set_book(0, not_fp16); }));
}

TEST(PackedWeight, SizesAreWhatTheSchemesPromise) {
  const auto bits = [](const std::string& scheme) {
    return bits_per_weight(random_weight(scheme, 4, 4096));
  };
  EXPECT_DOUBLE_EQ(bits("int4-sym-g128"), 4.125);
  EXPECT_DOUBLE_EQ(bits("int4-asym-g128"), 4.15625);
  EXPECT_DOUBLE_EQ(bits("int3-sym-g32"), 3.5);
  EXPECT_DOUBLE_EQ(bits("int8-sym-row"), 8 + 16.0 / 4096);
  EXPECT_DOUBLE_EQ(bits("lut4-nf4-g64"), 4.25);
  EXPECT_DOUBLE_EQ(bits("lut4-row-g128"), 4.125 + 256.0 / 4096);
  EXPECT_DOUBLE_EQ(bits("lut4-matrix-g128"), 4.125 + 256.0 / (4 * 4096));
  EXPECT_DOUBLE_EQ(bits("mxfp4"), 4.25);
  const std::vector<float> w(64, 0.25f);
  EXPECT_EQ(stored_bytes(round_to_nearest(w, 2, 32, parse_scheme("bf16"))), 128);
}

TEST(PackedWeight, ThreadsDoNotChangeHowItIsRounded) {
  constexpr std::int64_t kOutputs = 37;
  constexpr std::int64_t kInputs = 96;
  core::Random random(5);
  std::vector<float> w(kOutputs * kInputs);
  for (float& value : w) {
    value = random.normal();
  }
  const auto bytes = [](const core::Tensor& tensor) {
    return std::vector<std::byte>(tensor.raw(), tensor.raw() + tensor.bytes());
  };
  core::ThreadPool pool(3);
  for (const char* scheme :
       {"int4-asym-g32", "int4-asym-g32-s7", "int3-sym-g64", "mxfp4", "nvfp4"}) {
    const PackedWeight alone = round_to_nearest(w, kOutputs, kInputs, parse_scheme(scheme));
    const PackedWeight shared = round_to_nearest(w, kOutputs, kInputs, parse_scheme(scheme), pool);
    EXPECT_EQ(bytes(alone.codes), bytes(shared.codes)) << scheme;
    EXPECT_EQ(bytes(alone.scales), bytes(shared.scales)) << scheme;
    EXPECT_EQ(bytes(alone.zeros), bytes(shared.zeros)) << scheme;
    EXPECT_EQ(bytes(alone.units), bytes(shared.units)) << scheme;
  }
}

TEST(PackedWeight, PartsHaveTheNamesOfTheCheckpoint) {
  const auto names = [](const PackedWeight& weight) {
    std::string joined;
    for (const Part& part : parts(weight)) {
      joined += std::string(part.name) + " ";
    }
    return joined;
  };
  EXPECT_EQ(names(random_weight("int4-sym-g32", 1, 32)), "codes scales ");
  EXPECT_EQ(names(random_weight("int4-asym-g32", 1, 32)), "codes scales zeros ");
  EXPECT_EQ(names(random_weight("lut4-row-g32", 1, 32)), "codes scales book ");
  EXPECT_EQ(names(dense_weight(Tensor::zeros(DType::kBF16, {2, 3}))), "weight ");
}

TEST(PackedWeight, DenseRowsAreConverted) {
  const std::vector<float> w = {1, 2, 3, -0.5f, 0, 65504};
  for (const std::string scheme : {"f32", "f16", "bf16"}) {
    const PackedWeight weight = round_to_nearest(w, 2, 3, parse_scheme(scheme));
    EXPECT_EQ(to_string(weight.scheme), scheme);
    std::vector<float> row(3);
    decode_row(weight, 1, row);
    EXPECT_EQ(row, (std::vector<float>{-0.5f, 0, scheme == "bf16" ? 65536.0f : 65504.0f}));
    std::vector<std::uint8_t> codes(3);
    EXPECT_THROW(unpack_codes(weight, 0, codes), core::Error);
    EXPECT_THROW((void)book_of(weight, 0), core::Error);
  }
  EXPECT_THROW((void)dense_weight(Tensor::zeros(DType::kI8, {2, 3})), core::Error);
  EXPECT_THROW((void)dense_weight(Tensor::zeros(DType::kF64, {2, 3})), core::Error);
  EXPECT_THROW((void)dense_weight(Tensor::zeros(DType::kF32, {2, 3, 4})), core::Error);
  EXPECT_THROW((void)dense_weight(Tensor::zeros(DType::kF32, {0, 3})), core::Error);
}

TEST(PackedWeight, ReadersCheckRowAndRoom) {
  const PackedWeight weight = random_weight("int4-asym-g32", 2, 64);
  std::vector<float> values(64);
  EXPECT_THROW(decode_row(weight, 2, values), core::Error);
  EXPECT_THROW(decode_row(weight, -1, values), core::Error);
  EXPECT_THROW(decode_row(weight, 0, std::span(values).first(63)), core::Error);
  EXPECT_THROW(unpack_scales(weight, 0, values), core::Error);
  EXPECT_THROW((void)book_of(weight, 0), core::Error);
}

TEST(RoundToNearest, NamesThePositionOfWhatIsNotFinite) {
  std::vector<float> w(3 * 64, 0.5f);
  w[2 * 64 + 40] = std::nanf("");
  for (const std::string scheme : {"int4-sym-g32", "lut4-nf4-g32", "mxfp4", "f32", "bf16"}) {
    try {
      (void)round_to_nearest(w, 3, 64, parse_scheme(scheme));
      FAIL();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
      EXPECT_NE(std::string(error.what()).find("row 2, input 40"), std::string::npos)
          << error.what();
    }
  }
}

TEST(RoundToNearest, RefusesValuesThatTheDenseTypeCannotHold) {
  const std::vector<float> large = {1, 65520};
  EXPECT_THROW((void)round_to_nearest(large, 1, 2, parse_scheme("f16")), core::Error);
  EXPECT_NO_THROW((void)round_to_nearest(large, 1, 2, parse_scheme("bf16")));
  const std::vector<float> largest = {std::numeric_limits<float>::max()};
  EXPECT_THROW((void)round_to_nearest(largest, 1, 1, parse_scheme("bf16")), core::Error);
  EXPECT_NO_THROW((void)round_to_nearest(largest, 1, 1, parse_scheme("f32")));
  EXPECT_THROW((void)round_to_nearest(large, 1, 3, parse_scheme("f32")), core::Error);
  EXPECT_THROW((void)round_to_nearest(large, 1, 2, parse_scheme("lut4-row-g2")), core::Error);
}

// Rows of different sizes, and one scale: that of the largest weight, 0.5 / 127 in float16.
TEST(PackedWeight, OneScaleServesAllRows) {
  const std::vector<float> w = {0.5f, -0.25f, 0.1f, 0.0f, 0.01f, -0.02f, 0.005f, 0.002f};
  const PackedWeight weight = round_to_nearest(w, 2, 4, parse_scheme("int8-sym-tensor"));
  EXPECT_EQ(weight.scales.shape(), (core::Shape{1, 1}));
  EXPECT_EQ(weight.scales.data<core::Fp16>()[0].bits, 0x1c08);
  const auto codes = weight.codes.data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(codes.begin(), codes.end()),
            (std::vector<int>{255, 64, 153, 128, 131, 123, 129, 129}));
  std::vector<float> row(4);
  decode_row(weight, 1, row);
  const float scale = core::to_float(core::Fp16{0x1c08});
  EXPECT_EQ(row, (std::vector<float>{3 * scale, -5 * scale, scale, scale}));
  EXPECT_EQ(stored_bytes(weight), 8 + 2);
  EXPECT_EQ(stored_bytes(weight.scheme, 2, 4), 8 + 2);
}

}  // namespace
}  // namespace nibble::formats
