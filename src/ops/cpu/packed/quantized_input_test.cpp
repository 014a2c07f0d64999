#include "ops/cpu/packed/quantized_input.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "core/random.h"
#include "formats/fp4/e2m1_numbers.h"
#include "formats/split_mix.h"

namespace nibble::ops::cpu {
namespace {

std::vector<float> random_rows(std::int64_t count) {
  core::Random random(5);
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) {
    value = random.normal() * std::exp(random.normal());
  }
  return x;
}

formats::Activation e2m1(std::int64_t group, float clip) {
  formats::Activation activation{4, true, group, clip};
  activation.type = &formats::kE2m1Numbers;
  return activation;
}

TEST(QuantizeInput, CodesByHand) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  const std::vector<float> x = {127, -127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 126.4f, 2, 4};
  quantize_input(x.data(), 1, 10, 10, {8, {8, true, 8}}, q, pool);
  EXPECT_EQ(q.groups(), 2);
  EXPECT_EQ(q.group_stride(), 32);
  EXPECT_EQ(std::vector<int>(q.codes(0), q.codes(0) + 9),
            (std::vector<int>{127, -127, 0, 2, 2, 0, -2, 126, 0}));
  EXPECT_EQ(q.scales(0)[0], 1.0f);
  EXPECT_EQ(q.sums(0)[0], 128);
  EXPECT_EQ(q.codes(0)[32], 64);  // 63.5: ties to even
  EXPECT_EQ(q.codes(0)[33], 127);
  EXPECT_EQ(q.scales(0)[1], 4.0f / 127.0f);
  EXPECT_TRUE(std::all_of(q.codes(0) + 34, q.codes(0) + 64, [](std::int8_t c) { return c == 0; }));
}

TEST(QuantizeInput, OutliersStayAsTheyAreAndDoNotSetTheScale) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  const std::vector<float> x = {1, -6, 5.5f, 100, 0, 2, -2.5f, 5.99f};
  quantize_input(x.data(), 2, 4, 4, {2, {8, true, 0, 1.0f, true}}, q, pool);
  ASSERT_EQ(q.outliers(0).size(), 2u);
  EXPECT_EQ(q.outliers(0)[0].input, 1);
  EXPECT_EQ(q.outliers(0)[0].value, -6.0f);  // 6 is the first outlier
  EXPECT_EQ(q.outliers(0)[1].input, 3);
  EXPECT_EQ(q.outliers(0)[1].value, 100.0f);
  EXPECT_TRUE(q.outliers(1).empty());
  EXPECT_EQ(q.scales(0)[0], 5.5f / 127.0f);
  EXPECT_EQ(q.codes(0)[1], 0);
  EXPECT_EQ(q.codes(0)[q.group_stride()], 127);
  EXPECT_EQ(q.scales(1)[0], 5.99f / 127.0f);

  const std::vector<float> wrong = {std::nanf(""), 7, INFINITY, 1};
  quantize_input(wrong.data(), 1, 4, 4, {2, {8, true, 0, 1.0f, true}}, q, pool);
  EXPECT_EQ(q.outliers(0).size(), 1u);
  EXPECT_TRUE(std::isnan(q.scales(0)[0]));  // reaches every output
}

TEST(QuantizeInput, EveryVariantGivesTheSameBits) {
  core::ThreadPool pool(2);
  for (const Variant& variant : variants()) {
    if (!variant.runs_here()) {
      continue;
    }
    for (const std::int64_t group : {32, 64, 128, 256, 48, 1, 100}) {
      for (const std::int64_t k : {1, 31, 32, 100, 256, 1000, 2048}) {
        for (const formats::Activation& activation :
             {formats::Activation{8, true, group}, formats::Activation{8},
              formats::Activation{4, true, group, 0.9f}, e2m1(group, 1.0f), e2m1(0, 0.8f),
              formats::Activation{4, false}, formats::Activation{8, false, group, 0.8f},
              formats::Activation{4, true, 2 * group}}) {
          constexpr std::int64_t kRows = 7;
          const std::vector<float> x = random_rows(kRows * (k + 3));
          QuantizedInput expected;
          QuantizedInput actual;
          quantize_input(variants().front(), x.data(), kRows, k, k + 3, {group, activation},
                         expected, pool);
          quantize_input(variant, x.data(), kRows, k, k + 3, {group, activation}, actual, pool);
          for (std::int64_t r = 0; r < kRows; ++r) {
            const auto groups = static_cast<std::size_t>(actual.groups());
            const auto stride = static_cast<std::size_t>(actual.group_stride());
            ASSERT_EQ(std::memcmp(actual.codes(r), expected.codes(r), groups * stride), 0)
                << variant.name;
            ASSERT_EQ(std::memcmp(actual.scales(r), expected.scales(r), groups * sizeof(float)), 0)
                << variant.name;
            ASSERT_EQ(std::memcmp(actual.sums(r), expected.sums(r), groups * sizeof(std::int32_t)),
                      0)
                << variant.name;
            ASSERT_TRUE(
                actual.zeros(r) == nullptr ||
                std::memcmp(actual.zeros(r), expected.zeros(r), groups * sizeof(std::int32_t)) == 0)
                << variant.name;
          }
        }
      }
    }
  }
}

TEST(QuantizeInput, ErrorIsAtMostHalfAStep) {
  core::ThreadPool pool(1);
  for (const bool per_token : {false, true}) {
    const std::vector<float> x = random_rows(3 * 320);
    QuantizedInput q;
    quantize_input(x.data(), 3, 320, 320, {64, {8, true, per_token ? 0 : 64}}, q, pool);
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t k = 0; k < 320; ++k) {
        const float scale = q.scales(r)[k / 64];
        EXPECT_NEAR(scale * q.codes(r)[k], x[static_cast<std::size_t>(r * 320 + k)],
                    scale * 0.50002f);
      }
      for (std::int64_t g = 0; g < 5; ++g) {
        EXPECT_EQ(q.sums(r)[g], std::accumulate(q.codes(r) + g * 64, q.codes(r) + (g + 1) * 64, 0));
        EXPECT_TRUE(!per_token || q.scales(r)[g] == q.scales(r)[0]);
      }
    }
  }
}

// The digits against plain integer arithmetic in double.
TEST(QuantizeInput, WideCodesAreTwoDigits) {
  core::ThreadPool pool(2);
  constexpr std::int64_t kRows = 3;
  for (const Variant& variant : variants()) {
    for (const std::int64_t group : {32, 48, 128, 256}) {
      if (!variant.runs_here()) {
        continue;
      }
      constexpr std::int64_t kInputs = 700;  // the last group is short
      std::vector<float> x = random_rows(kRows * kInputs);
      x[5] = -1000.0f;
      QuantizedInput q;
      quantize_input(variant, x.data(), kRows, kInputs, kInputs,
                     {group, {8, true, group}, {}, 0, true}, q, pool);
      ASSERT_EQ(q.rows_per_token(), 2);
      ASSERT_EQ(q.tiled().m, 2 * kRows);
      for (std::int64_t i = 0; i < kRows * kInputs; ++i) {
        const std::int64_t token = i / kInputs;
        const std::int64_t k = i % kInputs;
        const std::int64_t g = k / group;
        const float* begin = x.data() + token * kInputs + g * group;
        const std::int64_t count = std::min(group, kInputs - g * group);
        const float largest = std::fabs(*std::max_element(
            begin, begin + count, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
        const float scale = largest / 32512.0f;
        const std::int64_t at = g * q.group_stride() + k % group;
        const int high = q.codes(2 * token)[at];
        const int low = q.codes(2 * token + 1)[at];
        ASSERT_EQ(q.scales(2 * token)[g], scale * 255.0f);
        ASSERT_EQ(q.scales(2 * token + 1)[g], scale);
        ASSERT_LE(std::max(std::abs(high), std::abs(low)), 127);
        ASSERT_NEAR(255.0 * high + low, static_cast<double>(x[static_cast<std::size_t>(i)]) / scale,
                    0.51)
            << variant.name << " " << i;
      }
      for (std::int64_t row = 0; row < 2 * kRows; ++row) {
        for (std::int64_t g = 0; g < q.groups(); ++g) {
          const std::int8_t* codes = q.codes(row) + g * q.group_stride();
          EXPECT_EQ(q.sums(row)[g], std::accumulate(codes, codes + q.group_stride(), 0));
        }
      }
    }
  }
}

TEST(QuantizeInput, WideCodesAtTheEndsOfTheRange) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  for (const float value : {3.4e38f, 2e-34f, 1e-34f, 1e-45f, 0.0f}) {
    std::vector<float> x(32, value);
    x[1] = -value;
    quantize_input(x.data(), 1, 32, 32, {32, {8, true, 32}, {}, 0, true}, q, pool);
    const bool vanishes = value < 1.9e-34f;
    EXPECT_EQ(q.codes(0)[0], vanishes ? 0 : 127) << value;
    EXPECT_EQ(q.codes(1)[1], vanishes ? 0 : -127) << value;
    EXPECT_TRUE(std::isfinite(q.scales(0)[0]));
  }
  std::vector<float> bad(64, 1.0f);
  bad[40] = std::nanf("");
  quantize_input(bad.data(), 1, 64, 64, {32, {8, true, 32}, {}, 0, true}, q, pool);
  EXPECT_TRUE(std::isnan(q.scales(0)[1]) && std::isnan(q.scales(1)[1]));
  EXPECT_EQ(q.codes(0)[0], 127);
  EXPECT_THROW(quantize_input(bad.data(), 1, 64, 64, {32, {4, true, 32}, {}, 0, true}, q, pool),
               core::Error);
}

TEST(QuantizeInput, NotANumberStaysVisible) {
  core::ThreadPool pool(1);
  for (const Variant& variant : variants()) {
    if (!variant.runs_here()) {
      continue;
    }
    for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
      std::vector<float> x(128, 1.0f);
      x[40] = bad;
      QuantizedInput q;
      quantize_input(variant, x.data(), 1, 128, 128, {32, {8, true, 32}}, q, pool);
      EXPECT_TRUE(std::isnan(q.scales(0)[1]));
      EXPECT_FALSE(std::isnan(q.scales(0)[0]));
      EXPECT_EQ(q.sums(0)[1], 0);
      quantize_input(variant, x.data(), 1, 128, 128, {32, {8}}, q, pool);
      EXPECT_TRUE(std::isnan(q.scales(0)[0]));
    }
  }
}

TEST(QuantizeInput, ExtremesOfTheRange) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  for (const float value : {3.4e38f, 1e-36f, 1e-38f, 1e-45f, 0.0f}) {
    std::vector<float> x(32, value);
    x[1] = -value;
    quantize_input(x.data(), 1, 32, 32, {32, {8, true, 32}}, q, pool);
    const bool vanishes = value < 3.7e-37f;
    EXPECT_EQ(q.codes(0)[0], vanishes ? 0 : 127) << value;
    EXPECT_EQ(q.codes(0)[1], vanishes ? 0 : -127) << value;
    EXPECT_TRUE(std::isfinite(q.scales(0)[0]));
  }
}

// Every variant against a plain loop, with values far beyond the codes on both sides.
TEST(QuantizeInput, AStoredScaleIsTakenAsItIs) {
  core::ThreadPool pool(1);
  constexpr std::int64_t kInputs = 150;
  std::vector<float> x = random_rows(2 * kInputs);
  const std::vector<float> far = {1e30f, -1e30f, 3e38f, -3e38f, 5e6f, -5e6f, 1e4f, -1e4f, -0.0f};
  std::copy(far.begin(), far.end(), x.begin() + 40);
  for (const int bits : {3, 4, 8}) {
    const double top = (1 << (bits - 1)) - 1;
    for (const float scale : {0.0123f, 0x1p-100f, 0x1p100f}) {
      InputNeeds needs{64, {.bits = bits, .stored_scale = true}};
      needs.scale = scale;
      for (const Variant& variant : variants()) {
        if (!variant.runs_here()) {
          continue;
        }
        QuantizedInput q;
        quantize_input(variant, x.data(), 2, kInputs, kInputs, needs, q, pool);
        for (std::int64_t i = 0; i < 2 * kInputs; ++i) {
          const std::int64_t row = i / kInputs;
          const std::int64_t at = i % kInputs;
          const double product = x[static_cast<std::size_t>(i)] * (1.0f / scale);
          const double code = std::clamp(std::nearbyint(product), bits == 8 ? -top : -top - 1, top);
          ASSERT_EQ(q.codes(row)[at / 64 * q.group_stride() + at % 64], code)
              << variant.name << " " << bits << " " << x[static_cast<std::size_t>(i)];
        }
        for (std::int64_t g = 0; g < q.groups(); ++g) {
          EXPECT_EQ(q.scales(0)[g], scale);
          const std::int8_t* codes = q.codes(0) + g * q.group_stride();
          EXPECT_EQ(q.sums(0)[g], std::accumulate(codes, codes + q.group_stride(), 0));
        }
      }
    }
  }
  x[3] = std::nanf("");
  InputNeeds needs{64, {.bits = 8, .stored_scale = true}};
  needs.scale = 1.0f;
  QuantizedInput q;
  quantize_input(x.data(), 2, kInputs, kInputs, needs, q, pool);
  EXPECT_TRUE(std::isnan(q.scales(0)[0]));
  EXPECT_EQ(q.scales(1)[0], 1.0f);
  needs.scale = 0.0f;
  EXPECT_THROW(quantize_input(x.data(), 2, kInputs, kInputs, needs, q, pool), core::Error);
}

TEST(QuantizeInput, FourBitCodesByHand) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  const std::vector<float> x = {7, -7, 0.5f, 1.5f, 2.5f, -0.5f, -6.6f, 3};
  quantize_input(x.data(), 1, 8, 8, {8, {4, true, 8}}, q, pool);
  EXPECT_EQ(std::vector<int>(q.codes(0), q.codes(0) + 8),
            (std::vector<int>{7, -7, 0, 2, 2, 0, -7, 3}));
  quantize_input(x.data(), 1, 8, 8, {8, {4, true, 8, 0.5f}}, q, pool);  // scale 0.5
  EXPECT_EQ(std::vector<int>(q.codes(0), q.codes(0) + 8),
            (std::vector<int>{7, -8, 1, 3, 5, -1, -8, 6}));
  EXPECT_EQ(q.scales(0)[0], 0.5f);
  const std::vector<float> positive = {1, 16, 7.6f, 5};  // the range is [0, 16]
  quantize_input(positive.data(), 1, 4, 4, {4, {4, false, 4, 15.0f / 16}}, q, pool);
  EXPECT_EQ(std::vector<int>(q.codes(0), q.codes(0) + 4), (std::vector<int>{1, 15, 8, 5}));
  const std::vector<float> mixed = {-5, 10, 2.4f, 0};
  quantize_input(mixed.data(), 1, 4, 4, {4, {4, false}}, q, pool);  // scale 1, zero 5
  EXPECT_EQ(std::vector<int>(q.codes(0), q.codes(0) + 4), (std::vector<int>{-5, 10, 2, 0}));
  EXPECT_EQ(q.zeros(0), nullptr);
  const std::vector<float> wide = {-100, 155, 2.4f, 0};
  quantize_input(wide.data(), 1, 4, 4, {4, {8, false}}, q, pool);  // scale 1, zero 100
  EXPECT_EQ(q.zeros(0)[0], -28);
  EXPECT_EQ(std::vector<int>(q.codes(0), q.codes(0) + 4), (std::vector<int>{-128, 127, -26, -28}));
}

// Against NumPy in float32 (tests/reference/make_activation_codes.py), on every variant.
// What ml_dtypes 0.5 (float4_e2m1fn) makes of i / 8, i = 0, 1, ..., times two.
TEST(QuantizeInput, GivesTheE2m1NumbersOfMlDtypes) {
  const std::vector<int> expected = {
      0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4,  4,  4,  4,  4,  4,  4,  6,  6,  6,  6,  6, 6,
      6, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12};
  core::ThreadPool pool(1);
  for (const Variant& variant : variants()) {
    if (!variant.runs_here()) {
      continue;
    }
    for (const float sign : {1.0f, -1.0f}) {
      // With a clip of a half 12 stands for half of the largest; what is larger is cut to it.
      for (const float clip : {1.0f, 0.5f}) {
        std::vector<float> x;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          x.push_back(sign * std::min(static_cast<float>(i) / 8, 6 / clip));
        }
        x.push_back(6 / clip);
        const auto k = std::ssize(x);
        QuantizedInput q;
        quantize_input(variant, x.data(), 1, k, k, {k, e2m1(0, clip)}, q, pool);
        EXPECT_EQ(q.scales(0)[0], 0.5f) << variant.name;
        std::int32_t sum = 12;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(q.codes(0)[i], static_cast<int>(sign) * expected[i])
              << variant.name << " " << x[i];
          sum += q.codes(0)[i];
        }
        EXPECT_EQ(q.codes(0)[k - 1], 12);
        EXPECT_EQ(q.sums(0)[0], sum);
      }
    }
  }
}

TEST(QuantizeInput, GivesTheIntegersOfNumpy) {
  core::ThreadPool pool(1);
  std::ifstream file(NIBBLE_SOURCE_DIR "/tests/reference/activation_codes.json");
  const core::Json cases =
      core::parse_json(std::string{std::istreambuf_iterator<char>(file), {}}, "activation_codes");
  ASSERT_EQ(cases.size(), 8u);
  for (const core::Json& golden : cases) {
    const std::int64_t k = golden.at("k");
    const std::int64_t group = golden.at("group");
    const std::int64_t rows = std::ssize(golden.at("rows"));
    std::vector<float> x =
        formats::split_mix_normals(golden.at("seed"), static_cast<std::size_t>(rows * k));
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] *= static_cast<float>(1 + 2 * (i % 7));
      x[i] = i < static_cast<std::size_t>(2 * k) ? x[i] : std::fabs(x[i]);
    }
    const InputNeeds needs{32,
                           {golden.at("bits"), golden.at("symmetric"), group, golden.at("clip")}};
    for (const Variant& variant : variants()) {
      if (!variant.runs_here()) {
        continue;
      }
      QuantizedInput q;
      quantize_input(variant, x.data(), rows, k, k, needs, q, pool);
      for (std::int64_t r = 0; r < rows; ++r) {
        const core::Json& row = golden.at("rows").at(static_cast<std::size_t>(r));
        std::int64_t checksum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t zero = q.zeros(r) == nullptr ? 0 : q.zeros(r)[i / 32];
          const std::int64_t value = q.codes(r)[i] - zero;
          checksum += value * (i + 1);
          if (i < 12) {
            EXPECT_EQ(value, row.at("first").at(static_cast<std::size_t>(i)).get<std::int64_t>());
          }
          const std::int64_t scale = group == 0 ? 0 : i / group;
          ASSERT_EQ(q.scales(r)[i / 32],
                    row.at("scales").at(static_cast<std::size_t>(scale)).get<float>());
        }
        EXPECT_EQ(checksum, row.at("checksum").get<std::int64_t>()) << golden.dump();
      }
    }
  }
}

TEST(QuantizeInput, FourBitExtremesStayFinite) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  for (const bool symmetric : {true, false}) {
    for (const int bits : {4, 8}) {
      for (const float value : {3.4e38f, 1e-34f, 1e-38f, 0.0f}) {
        const std::vector<float> x = {value, -value, value, value};
        quantize_input(x.data(), 1, 4, 4, {4, {bits, symmetric}}, q, pool);
        const float zero = q.zeros(0) == nullptr ? 0.0f : static_cast<float>(q.zeros(0)[0]);
        const float decoded = q.scales(0)[0] * (static_cast<float>(q.codes(0)[0]) - zero);
        ASSERT_TRUE(std::isfinite(q.scales(0)[0]));
        EXPECT_NEAR(decoded, value < 1e-35f ? 0.0f : value, std::fabs(value) * 0.08f);
      }
      const std::vector<float> bad = {1, std::nanf(""), -2, 3};
      quantize_input(bad.data(), 1, 4, 4, {4, {bits, symmetric}}, q, pool);
      EXPECT_TRUE(std::isnan(q.scales(0)[0]));
    }
  }
}

TEST(QuantizeInput, RefusesGroupsThatKernelsCannotSum) {
  core::ThreadPool pool(1);
  QuantizedInput q;
  const std::vector<float> x(512);
  EXPECT_THROW(quantize_input(x.data(), 1, 512, 512, {257, {8, true, 257}}, q, pool), core::Error);
  EXPECT_THROW(quantize_input(x.data(), 1, 512, 512, {0, {8, true, 0}}, q, pool), core::Error);
}

}  // namespace
}  // namespace nibble::ops::cpu
