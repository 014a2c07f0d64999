// Relative mean squared error of round to nearest, and what must hold for whole matrices.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/json.h"
#include "core/random.h"
#include "formats/format.h"
#include "formats/split_mix.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kWidth = 4096;

core::Json read_json(const std::string& path) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return core::parse_json(text, path);
}

std::vector<float> decode_all(const PackedWeight& packed) {
  std::vector<float> values(static_cast<std::size_t>(packed.n * packed.k));
  for (std::int64_t row = 0; row < packed.n; ++row) {
    decode_row(packed, row,
               std::span(values).subspan(static_cast<std::size_t>(row * packed.k),
                                         static_cast<std::size_t>(packed.k)));
  }
  return values;
}

double relative_error(const std::vector<float>& w, const std::string& scheme) {
  const auto rows = static_cast<std::int64_t>(w.size()) / kWidth;
  const auto decoded = decode_all(round_to_nearest(w, rows, kWidth, parse_scheme(scheme)));
  double error = 0;
  double total = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double difference = static_cast<double>(decoded[i]) - w[i];
    error += difference * difference;
    total += static_cast<double>(w[i]) * w[i];
  }
  return error / total;
}

// goldens/make_goldens.py makes the same numbers: every operation is exact or rounded once in
// float64.
std::vector<float> golden_sample(const std::string& name, std::size_t count) {
  const auto product = [](float a, float b) { return static_cast<double>(a) * b; };
  std::vector<float> sample(count);
  if (name == "normal") {
    return split_mix_normals(21, count);
  }
  if (name == "laplace") {  // the determinant of four normal numbers
    const auto n = split_mix_normals(22, 4 * count);
    for (std::size_t i = 0; i < count; ++i) {
      sample[i] =
          static_cast<float>(product(n[4 * i], n[4 * i + 1]) - product(n[4 * i + 2], n[4 * i + 3]));
    }
    return sample;
  }
  const auto n = split_mix_normals(23, 6 * count);
  for (std::size_t i = 0; i < count; ++i) {  // Student's t with 5 degrees of freedom, unscaled
    double squares = 0;
    for (std::size_t j = 1; j < 6; ++j) {
      squares += product(n[6 * i + j], n[6 * i + j]);
    }
    sample[i] = static_cast<float>(static_cast<double>(n[6 * i]) / std::sqrt(squares));
  }
  return sample;
}

// The same numbers on both sides; what is left is the rounding of scales to fp16.
TEST(Statistics, ErrorsAreThoseOfNumpyOnTheSameNumbers) {
  const core::Json goldens =
      read_json(NIBBLE_SOURCE_DIR "/src/formats/goldens/formats.json").at("errors");
  for (const std::string name : {"normal", "laplace", "t5"}) {
    const auto sample = golden_sample(name, 1u << 18);
    for (const auto& [scheme, expected] : goldens.at(name).items()) {
      const double golden = expected.get<double>();
      EXPECT_NEAR(relative_error(sample, scheme), golden, 0.001 * golden) << name << " " << scheme;
    }
  }
}

// Numbers drawn independently. The bound is 1 % plus what two samples of 2^18 numbers differ by.
TEST(Statistics, ErrorsAreThePublishedOnes) {
  const std::string folder = NIBBLE_SOURCE_DIR "/../shared/goldens/";
  if (!std::filesystem::exists(folder + "stat_gauss.json")) {
    GTEST_SKIP() << folder << "stat_gauss.json is missing";
  }
  core::Random random(5);
  std::vector<float> normal(1u << 20);
  for (float& value : normal) {
    value = random.normal();
  }
  const core::Json published = read_json(folder + "stat_gauss.json");
  const auto check = [&](const std::string& name, const std::string& scheme,
                         const std::string& group) {
    const double expected = published.at(name).at(group).at(0).get<double>();
    EXPECT_NEAR(relative_error(normal, scheme), expected, 0.01 * expected) << scheme;
  };
  for (const std::string group : {"32", "64", "128", "256"}) {
    check("int4 full_sym", "int4-sym-g" + group, group);
    check("int4 gptq_asym", "int4-asym-g" + group, group);
    check("nf4", "lut4-nf4-g" + group, group);
    check("e2m1 exact absmax/6", "lut4-fp4-g" + group, group);
    check("af4 zero-as-code", "lut4-af4-g" + group, group);
  }
  check("mxfp4 even", "mxfp4", "32");
}

TEST(Statistics, MoreBitsAndSmallerGroupsAreBetter) {
  const auto sample = golden_sample("t5", 1u << 16);
  EXPECT_LT(relative_error(sample, "int3-sym-g32"), relative_error(sample, "int2-sym-g32"));
  EXPECT_LT(relative_error(sample, "int4-sym-g32"), relative_error(sample, "int3-sym-g32"));
  EXPECT_LT(relative_error(sample, "int8-sym-g32"), relative_error(sample, "int4-sym-g32") / 100);
  EXPECT_LT(relative_error(sample, "int4-asym-g32"), relative_error(sample, "int4-asym-g128"));
  EXPECT_LT(relative_error(sample, "int8-sym-g32"), relative_error(sample, "int8-sym-row"));
}

// Decoded weights quantize to themselves where the extreme of a group is a value of the format.
TEST(Statistics, QuantizingTwiceChangesNothing) {
  const auto sample = golden_sample("laplace", 1u << 15);
  for (const std::string scheme :
       {"int2-sym-g64", "int3-sym-g64", "int4-sym-g64", "int4-sym-row", "int8-sym-g64",
        "lut4-nf4-g64", "lut4-fp4-g64", "lut4-af4-g64", "mxfp4"}) {
    const Scheme parsed = parse_scheme(scheme);
    const auto once = decode_all(round_to_nearest(sample, 8, kWidth, parsed));
    const auto twice = decode_all(round_to_nearest(once, 8, kWidth, parsed));
    EXPECT_EQ(once, twice) << scheme;
  }
}

// Asymmetric scales are recomputed from the ends of the range. When both end codes are in use they
// come back to within their rounding. (A scale that fp16 rounds up, with a zero point near a tie,
// can leave an end code unused: then the range, and the second scale with it, is one step smaller.)
TEST(Statistics, QuantizingAsymmetricTwiceKeepsScalesWhoseEndCodesAreInUse) {
  const auto sample = golden_sample("laplace", 1u << 15);
  const Scheme scheme = parse_scheme("int4-asym-g64");
  const auto once = round_to_nearest(sample, 8, kWidth, scheme);
  const auto twice = round_to_nearest(decode_all(once), 8, kWidth, scheme);
  const auto a = once.scales.data<core::Fp16>();
  const auto b = twice.scales.data<core::Fp16>();
  std::size_t checked = 0;
  for (std::int64_t row = 0; row < 8; ++row) {
    std::vector<std::uint8_t> codes(kWidth);
    unpack_codes(once, row, codes);
    for (std::int64_t group = 0; group < kWidth / 64; ++group) {
      const auto begin = codes.begin() + group * 64;
      const auto [low, high] = std::minmax_element(begin, begin + 64);
      if (*low == 0 && *high == 15) {
        const auto at = static_cast<std::size_t>(row * (kWidth / 64) + group);
        EXPECT_LE(std::abs(a[at].bits - b[at].bits), 1);
        ++checked;
      }
    }
  }
  EXPECT_GT(checked, a.size() * 98 / 100);
}

}  // namespace
}  // namespace nibble::formats
