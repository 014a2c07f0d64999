// Fake quantization against the formats that it stands for, and its gradients against PyTorch's.

#include "tune/fake_quantizer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "formats/block_sparse.h"
#include "tune/golden_for_tests.h"

namespace nibble::tune {
namespace {

using formats::GroupParameters;

std::vector<float> normal(std::size_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return random.normal(); });
  return values;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-5 * std::max(1.0f, std::abs(expected[i])))
        << what << " " << i;
  }
}

TEST(FakeQuantizer, HasTheGradientsThatPyTorchFinds) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kInputs = 24;
  core::ThreadPool pool(2);
  for (const core::Json& golden : training_golden("fake_quantizer")) {
    const auto scheme = formats::parse_scheme(golden.at("scheme").get<std::string>());
    const std::vector<float> stored = floats(golden.at("scales"));
    const std::vector<float> zeros = floats(golden.at("zeros"));
    std::vector<GroupParameters> groups;
    for (std::size_t i = 0; i < stored.size(); ++i) {
      groups.push_back({stored[i], static_cast<int>(std::nearbyint(zeros[i]))});
    }
    const GroupScales scales(scheme, kRows, kInputs, groups);
    const std::vector<float> weights = floats(golden.at("weights"));
    const std::vector<float> logarithms = floats(golden.at("logarithms"));
    const bool has_zeros = formats::has_zeros(scheme);
    const TrainedWeight trained{
        weights, logarithms, has_zeros ? std::span<const float>(zeros) : std::span<const float>()};
    std::vector<float> values(weights.size());
    fake_quantize(scales, trained, values, pool);
    const std::string name = formats::to_string(scheme);
    expect_near(values, floats(golden.at("values")), name + " values");

    std::vector<float> d_weights = floats(golden.at("upstream"));
    std::vector<float> d_logarithms(logarithms.size());
    std::vector<float> d_zeros(has_zeros ? zeros.size() : 0);
    fake_quantize_back(scales, trained, {d_weights, d_logarithms, d_zeros}, pool);
    expect_near(d_weights, floats(golden.at("d_weights")), name + " d weights");
    expect_near(d_logarithms, floats(golden.at("d_logarithms")), name + " d logarithms");
    expect_near(d_zeros, floats(golden.at("d_zeros")), name + " d zeros");
  }
}

// What training saw is what the packed layer decodes to, bit for bit.
TEST(FakeQuantizer, SeesTheValuesOfThePackedLayer) {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kInputs = 96;
  core::ThreadPool pool(2);
  for (const char* name : {"int2-asym-g16", "int3-asym-g64", "int4-asym-g32", "int4-sym-g40",
                           "int8-sym-row", "int3-sym-row", "int2-sym-g96"}) {
    const auto scheme = formats::parse_scheme(name);
    const std::vector<float> weights = normal(kRows * kInputs, 3);
    const auto packed = formats::round_to_nearest(weights, kRows, kInputs, scheme);
    const compress::CodedWeight start = compress::unpack(packed);
    const GroupScales scales(scheme, kRows, kInputs, start.parameters.groups);
    std::vector<float> logarithms = scales.logarithms();
    std::vector<float> zeros = scales.zeros();
    // Untrained numbers give back the packed layer; trained ones one of their own.
    for (const float moved : {0.0f, 0.3f}) {
      for (std::size_t i = 0; i < logarithms.size(); ++i) {
        logarithms[i] += moved * std::sin(1.0f + static_cast<float>(i));
      }
      for (std::size_t i = 0; i < zeros.size(); ++i) {
        zeros[i] += 9 * moved * std::cos(static_cast<float>(i));
      }
      const TrainedWeight trained{weights, logarithms, zeros};
      std::vector<float> values(weights.size());
      fake_quantize(scales, trained, values, pool);
      const auto result =
          compress::pack(coded(scales, trained, pool), kRows, kInputs, scheme, pool);
      formats::validate(result, name);
      std::vector<float> row(kInputs);
      for (std::int64_t i = 0; i < kRows; ++i) {
        formats::decode_row(result, i, row);
        EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin() + i * kInputs)) << name;
        formats::decode_row(packed, i, row);
        EXPECT_EQ(std::equal(row.begin(), row.end(), values.begin() + i * kInputs), moved == 0)
            << name;
      }
    }
  }
}

TEST(FakeQuantizer, LeavesPrunedGroupsAlone) {
  constexpr std::int64_t kInputs = 64;
  core::ThreadPool pool(1);
  const auto scheme = formats::parse_scheme("int4-asym-g16-bsr");
  std::vector<float> weights = normal(2 * kInputs, 4);
  std::fill(weights.begin() + 16, weights.begin() + 48, 0.0f);
  std::fill(weights.begin() + 64, weights.begin() + 128, 0.0f);  // a row of nothing
  const auto packed = formats::round_to_nearest(weights, 2, kInputs, scheme);
  const GroupScales scales(scheme, 2, kInputs, compress::unpack(packed).parameters.groups);
  EXPECT_TRUE(scales.keeps(0) && scales.keeps(3));
  EXPECT_FALSE(scales.keeps(1) || scales.keeps(2) || scales.keeps(4) || scales.keeps(7));

  const std::vector<float> master = normal(2 * kInputs, 5);  // also where weights are pruned
  const std::vector<float> logarithms = scales.logarithms();
  const std::vector<float> zeros = scales.zeros();
  const TrainedWeight trained{master, logarithms, zeros};
  std::vector<float> gradient(master.size(), 1.0f);
  std::vector<float> d_logarithms(8);
  std::vector<float> d_zeros(8);
  fake_quantize_back(scales, trained, {gradient, d_logarithms, d_zeros}, pool);
  EXPECT_EQ(gradient[16], 0.0f);
  EXPECT_EQ(d_logarithms[1], 0.0f);
  EXPECT_NE(d_logarithms[0], 0.0f);

  const auto result = compress::pack(coded(scales, trained, pool), 2, kInputs, scheme, pool);
  EXPECT_EQ(formats::stored_group_count(result), formats::stored_group_count(packed));
  std::vector<float> values(master.size());
  fake_quantize(scales, trained, values, pool);
  std::vector<float> row(kInputs);
  for (std::int64_t i = 0; i < 2; ++i) {
    formats::decode_row(result, i, row);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), values.begin() + i * kInputs));
  }
}

TEST(FakeQuantizer, RefusesWhatItCannotTrain) {
  for (const char* name : {"nf4", "mxfp4", "int4-min-g32", "int4-asym-g32-s7", "int4-sym-tensor",
                           "int4-asym-g32-h32", "int4-asym-g32-order", "f16"}) {
    const std::string full = std::string(name) == "nf4" ? "lut4-nf4-g64" : name;
    EXPECT_THROW(require_trainable(formats::parse_scheme(full)), core::Error) << full;
  }
  EXPECT_NO_THROW(require_trainable(formats::parse_scheme("int4-asym-g16-bsr")));
  EXPECT_NO_THROW(require_trainable(formats::parse_scheme("f16-g16-bsr")));
}

}  // namespace
}  // namespace nibble::tune
