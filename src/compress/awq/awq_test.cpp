#include <cmath>

#include <gtest/gtest.h>

#include "compress/awq/clip_search.h"
#include "compress/awq/scale_search.h"
#include "compress/coding/round_row.h"
#include "core/random.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 48;
constexpr std::int64_t kInputs = 128;

// A layer behind a norm, and inputs of which a few channels are much larger than the others.
class Awq : public testing::Test {
 protected:
  void SetUp() override {
    core::Random random(7);
    linear_.weight.n = kRows;
    linear_.weight.k = kInputs;
    LayerWork layer;
    layer.layer = &linear_;
    layer.scheme = formats::parse_scheme("int4-asym-g64");
    layer.target.resize(kRows * kInputs);
    for (float& w : layer.target) {
      w = random.normal() * (random.below(20) == 0 ? 4.0f : 1.0f);
    }
    layer.weights = layer.target;
    norm_.weight.assign(kInputs, 1.0f);
    set_.layers.push_back(std::move(layer));
    set_.source.norm = &norm_;
    set_.source.scales = kInputs;
    for (std::int32_t j = 0; j < kInputs; ++j) {
      set_.source.scale_of.push_back(j);
    }
    ops::cpu::CpuOps ops({1, ops::ActivationPrecision::kFloat});
    auto x = ops.matrix(300, kInputs);
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      const float shared = random.normal();
      for (std::int64_t j = 0; j < kInputs; ++j) {
        x.row(i)[j] = (random.normal() + shared) * (j % 40 == 3 ? 12.0f : 1.0f);
      }
    }
    statistics_.add(x, pool_);
    set_.statistics = &statistics_;
  }

  // tr(E H E^T) of rounding layer.weights, against the target.
  double rounded_error() const {
    const LayerWork& layer = set_.layers.front();
    const auto format = formats::make_format(layer.scheme);
    const auto& hessian = statistics_.hessian();
    double sum = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::vector<float> w(layer.weights.begin() + row * kInputs,
                           layer.weights.begin() + (row + 1) * kInputs);
      round_row(*format, w);
      for (std::int64_t j = 0; j < kInputs; ++j) {
        w[static_cast<std::size_t>(j)] -= layer.target[static_cast<std::size_t>(row * kInputs + j)];
      }
      for (std::int64_t i = 0; i < kInputs; ++i) {
        for (std::int64_t j = 0; j < kInputs; ++j) {
          const std::int64_t at = i >= j ? i * kInputs + j : j * kInputs + i;
          sum += static_cast<double>(w[static_cast<std::size_t>(i)]) *
                 static_cast<double>(hessian[static_cast<std::size_t>(at)]) *
                 static_cast<double>(w[static_cast<std::size_t>(j)]);
        }
      }
    }
    return sum;
  }

  core::ThreadPool pool_{2};
  Backend backend_{pool_};
  ops::Linear linear_;
  ops::Norm norm_;
  SetWork set_;
  InputStatistics statistics_{StatisticsKind::kHessian, kInputs};
};

TEST_F(Awq, ScalesLessenTheErrorOfLargeChannels) {
  const double before = rounded_error();
  const std::vector<float> s = search_scales(set_, backend_);
  scale_inputs(set_, s);
  EXPECT_LT(rounded_error(), 0.6 * before);
  EXPECT_GT(s[3], 1.5f * s[4]);  // a large channel is rounded more finely
  for (std::size_t j = 0; j < kInputs; ++j) {
    EXPECT_FLOAT_EQ(norm_.weight[j], 1.0f / s[j]);
  }
}

TEST_F(Awq, OnesWhenNoScaleHelps) {
  for (float& w : set_.layers.front().weights) {
    w = w > 0 ? 15.0f : 0.0f;  // every group is exact as it is
  }
  for (const float s : search_scales(set_, backend_)) {
    EXPECT_FLOAT_EQ(s, 1.0f);
  }
}

TEST_F(Awq, ClippingNeverCostsAndHelpsHeavyTails) {
  LayerWork& layer = set_.layers.front();
  const double before = rounded_error();
  clip_groups(layer, statistics_.hessian(), pool_);
  EXPECT_LT(rounded_error(), 0.97 * before);
  float largest = 0;
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    EXPECT_LE(std::fabs(layer.weights[i]), std::fabs(layer.target[i]));
    largest = std::max(largest, std::fabs(layer.weights[i] - layer.target[i]));
  }
  EXPECT_GT(largest, 0);
}

TEST_F(Awq, ThreadsDoNotChangeTheResult) {
  core::ThreadPool alone(1);
  const Backend backend_alone(alone);
  EXPECT_EQ(search_scales(set_, backend_), search_scales(set_, backend_alone));
  LayerWork copy = set_.layers.front();
  clip_groups(copy, statistics_.hessian(), alone);
  clip_groups(set_.layers.front(), statistics_.hessian(), pool_);
  EXPECT_EQ(copy.weights, set_.layers.front().weights);
}

}  // namespace
}  // namespace nibble::compress
