// FP8 weights against ml_dtypes (goldens/make_fp8.py).

#include "formats/fp8/fp8_format.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/float8.h"
#include "core/json.h"
#include "core/random.h"

namespace nibble::formats {
namespace {

core::Json goldens() {
  const std::string path = NIBBLE_SOURCE_DIR "/src/formats/goldens/fp8.json";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return core::parse_json(text, path);
}

std::string hex_of(std::span<const std::uint8_t> bytes) {
  std::string hex;
  for (const std::uint8_t byte : bytes) {
    hex += fmt::format("{:02x}", byte);
  }
  return hex;
}

std::vector<float> random_weights(std::size_t count, float size) {
  core::Random random(17);
  std::vector<float> weights(count);
  for (float& weight : weights) {
    weight = size * random.normal();
  }
  return weights;
}

TEST(Fp8, CodesMeanWhatMlDtypesSays) {
  const auto values = goldens().at("values").get<std::vector<float>>();
  ASSERT_EQ(values.size(), 127u);
  const auto format = make_format(parse_scheme("fp8-row"));
  for (std::size_t code = 0; code < values.size(); ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(format->decode(byte, {0.5f, 0}), 0.5f * values[code]);
    EXPECT_EQ(format->decode(byte | 0x80, {0.5f, 0}), -0.5f * values[code]);
  }
}

TEST(Fp8, RoundsAsMlDtypesDoes) {
  const core::Json roundings = goldens().at("roundings");
  const auto values = roundings.at("values").get<std::vector<float>>();
  ASSERT_GT(values.size(), 1000u);
  std::vector<std::uint8_t> codes(values.size());
  make_format(parse_scheme("fp8-row"))->encode_group(values, {1.0f, 0}, codes);
  EXPECT_EQ(hex_of(codes), roundings.at("bytes").get<std::string>());
}

TEST(Fp8, MatricesAreThoseOfMlDtypes) {
  const core::Json matrices = goldens().at("matrices");
  EXPECT_EQ(matrices.size(), 8u);
  for (const core::Json& golden : matrices) {
    const auto scheme = golden.at("scheme").get<std::string>();
    SCOPED_TRACE(golden.at("name").get<std::string>() + " " + scheme);
    const auto n = golden.at("n").get<std::int64_t>();
    const auto k = golden.at("k").get<std::int64_t>();
    const PackedWeight weight = round_to_nearest(golden.at("weights").get<std::vector<float>>(), n,
                                                 k, parse_scheme(scheme));
    const auto scales = golden.at("scales").get<std::vector<float>>();
    EXPECT_EQ(weight.scales.dim(0), std::ssize(scales));
    for (std::int64_t row = 0; row < n; ++row) {
      float scale = 0;
      unpack_scales(weight, row, {&scale, 1});
      EXPECT_EQ(scale, scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(row)]);
    }
    EXPECT_EQ(hex_of(weight.codes.data<std::uint8_t>()), golden.at("codes").get<std::string>());
  }
}

TEST(Fp8, RowsComeBackWithTheErrorOfThreeBitsOfMantissa) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kInputs = 67;
  for (const float size : {100.0f, 1.0f, 1e-3f, 1e-5f}) {
    const auto w = random_weights(kRows * kInputs, size);
    for (const char* scheme : {"fp8-row", "fp8-tensor-afp8"}) {
      const PackedWeight weight = round_to_nearest(w, kRows, kInputs, parse_scheme(scheme));
      std::vector<float> row(kInputs);
      for (std::int64_t i = 0; i < kRows; ++i) {
        decode_row(weight, i, row);
        float scale = 0;
        unpack_scales(weight, i, {&scale, 1});
        for (std::size_t j = 0; j < row.size(); ++j) {
          const float exact = w[static_cast<std::size_t>(i * kInputs) + j];
          const float bound = std::max(std::abs(exact) / 16, scale * 0x1p-10f) * 1.0001f;
          EXPECT_LE(std::abs(row[j] - exact), bound) << scheme << " " << size;
        }
      }
    }
  }
}

TEST(Fp8, ScalesLeaveNothingFarBeyondTheLargestCode) {
  const auto format = make_format(parse_scheme("fp8-row"));
  for (int i = 1; i < 4000; ++i) {
    const float largest = static_cast<float>(i) * 1e-7f;
    const GroupParameters fitted = format->fit({&largest, 1});
    EXPECT_LE(largest, 464 * fitted.scale);
    EXPECT_EQ(fitted.scale, core::to_float(core::to_fp16(fitted.scale)));
  }
  constexpr float kHuge = std::numeric_limits<float>::max();
  const GroupParameters fitted = format->fit({&kHuge, 1});
  EXPECT_EQ(fitted.scale, core::kFp16Max);
  EXPECT_EQ(format->encode(-kHuge, fitted), 0xfe);
}

TEST(Fp8, NoCodeIsEverNan) {
  const auto format = make_format(parse_scheme("fp8-row"));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float weight : {kInfinity, -kInfinity, std::nanf(""), 1e30f}) {
    EXPECT_NE(format->encode(weight, {1e-5f, 0}) & 0x7f, 0x7f) << weight;
  }
  EXPECT_THROW(format->fit({&kInfinity, 1}), core::Error);
}

TEST(Fp8, FilesWithNanAreRefused) {
  for (const char* scheme : {"fp8-row", "fp8-tensor"}) {
    for (const std::uint8_t nan : {0x7f, 0xff}) {
      PackedWeight weight =
          round_to_nearest(random_weights(2 * 10, 1.0f), 2, 10, parse_scheme(scheme));
      weight.codes.mutable_data<std::uint8_t>()[13] = nan;
      try {
        validate(weight, "q_proj");
        ADD_FAILURE() << "was accepted";
      } catch (const core::Error& error) {
        EXPECT_EQ(error.kind(), core::ErrorKind::kInvalidModel);
        EXPECT_EQ(error.what(),
                  fmt::format("q_proj.codes: row 1, input 3 holds {:#04x}, which is NaN", nan));
      }
    }
  }
}

TEST(Fp8, SchemesReadAndPrint) {
  for (const std::string text : {"fp8-row", "fp8-tensor", "fp8-row-afp8", "fp8-tensor-afp8",
                                 "fp8-row-h64", "fp8-row-afp8-hrow"}) {
    EXPECT_EQ(to_string(parse_scheme(text)), text);
  }
  const Scheme scheme = parse_scheme("fp8-tensor-afp8");
  EXPECT_TRUE(has_float_codes(scheme));
  EXPECT_EQ(scheme.scale.rows, kAllRows);
  EXPECT_EQ(scheme.activation.type, &kFp8Codes);
  EXPECT_FALSE(scheme.activation.is_float());
  for (const std::string text :
       {"fp8", "fp8-g128", "fp8-row-a8", "fp8-row-afp8-asym", "fp8-row-afp8o", "fp8-row-s7",
        "fp8-row-afp8-tail16", "int8-sym-row-afp8", "f16-afp8", "fp8-sym-row", "nvfp4-afp8"}) {
    EXPECT_THROW(parse_scheme(text), core::Error) << text;
  }
}

TEST(Fp8, TakesTheBytesThatItsPartsSay) {
  const PackedWeight weight =
      round_to_nearest(random_weights(4 * 30, 1.0f), 4, 30, parse_scheme("fp8-row"));
  EXPECT_EQ(stored_bytes(weight), 4 * 30 + 4 * 2);
}

}  // namespace
}  // namespace nibble::formats
