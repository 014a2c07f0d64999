#include "compress/refine/model_refine.h"

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 560;  // two blocks, of 512 and 48
constexpr std::int64_t kInputs = 96;
constexpr double kDamp = 0.1;

// Gradients that outputs share.
OutputCurvature correlated_outputs(std::uint64_t seed) {
  core::ThreadPool pool(1);
  constexpr std::int64_t kRows = 900;
  const auto noise = core::normal_values(kRows * kOutputs, seed);
  std::vector<float> g(noise.size());
  for (std::int64_t row = 0; row < kRows; ++row) {
    float shared = 0;
    for (std::int64_t i = 0; i < kOutputs; ++i) {
      const auto at = static_cast<std::size_t>(row * kOutputs + i);
      shared = 0.8f * shared + noise[at];
      g[at] = shared;
    }
  }
  OutputCurvature curvature(kOutputs);
  curvature.add(g.data(), kRows, kOutputs, pool);
  return curvature;
}

// tr(G E H E^T) in plain loops, G damped.
double model_loss(const std::vector<float>& w, const CodedWeight& coded,
                  const formats::Scheme& scheme, const OutputCurvature& curvature,
                  const std::vector<float>& hessian) {
  const auto packed = pack(coded, kOutputs, kInputs, scheme);
  std::vector<double> error(w.size());
  std::vector<float> row(kInputs);
  for (std::int64_t i = 0; i < kOutputs; ++i) {
    formats::decode_row(packed, i, row);
    for (std::size_t j = 0; j < kInputs; ++j) {
      const std::size_t at = static_cast<std::size_t>(i) * kInputs + j;
      error[at] = static_cast<double>(row[j]) - w[at];
    }
  }
  double loss = 0;
  for (std::int64_t b = 0; b < curvature.blocks(); ++b) {
    const std::int64_t width = curvature.width(b);
    const auto g = curvature.block(b);
    double mean = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      mean += g[static_cast<std::size_t>(i * width + i)] / static_cast<double>(width);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      std::vector<double> mixed(kInputs);  // (G E)_i
      for (std::int64_t r = 0; r < width; ++r) {
        const double factor = g[static_cast<std::size_t>(i * width + r)] +
                              (i == r ? (mean > 0 ? kDamp * mean : 1.0) : 0.0);
        for (std::size_t j = 0; j < kInputs; ++j) {
          mixed[j] +=
              factor * error[static_cast<std::size_t>(curvature.first(b) + r) * kInputs + j];
        }
      }
      const double* own = &error[static_cast<std::size_t>(curvature.first(b) + i) * kInputs];
      for (std::size_t a = 0; a < kInputs; ++a) {
        for (std::size_t c = 0; c < kInputs; ++c) {
          loss += mixed[a] * static_cast<double>(hessian[a * kInputs + c]) * own[c];
        }
      }
    }
  }
  return loss;
}

class ModelRefine : public testing::TestWithParam<const char*> {
 protected:
  CodedWeight rounded() {
    core::ThreadPool pool(1);
    return round_with(w_, kOutputs, kInputs, scheme_,
                      fit_parameters(w_, kOutputs, kInputs, scheme_, pool), pool);
  }
  CodedWeight refined(CodedWeight coded, const OutputCurvature& curvature, int sweeps,
                      std::span<const std::uint8_t> kept = {}) {
    const ModelObjective objective{curvature, kDamp, hessian_};
    for (std::int64_t b = 0; b < curvature.blocks(); ++b) {
      refine_for_model(coded, w_, kInputs, scheme_, objective, b, {sweeps, true}, kept);
    }
    return coded;
  }

  formats::Scheme scheme_ = formats::parse_scheme(GetParam());
  std::vector<float> w_ = core::normal_values(kOutputs * kInputs, 1);
  std::vector<float> hessian_ =
      symmetric_hessian(correlated_hessian(kInputs, 400, 2), kInputs, 0.01);
};

TEST_P(ModelRefine, LosesLessThanRefiningForTheLayer) {
  const OutputCurvature curvature = correlated_outputs(3);
  const CodedWeight start = rounded();
  core::ThreadPool pool(2);
  CodedWeight for_layer = start;
  refine(for_layer, w_, kOutputs, kInputs, scheme_, hessian_, {3, true}, pool);
  const double layer = model_loss(w_, for_layer, scheme_, curvature, hessian_);
  const double one = model_loss(w_, refined(start, curvature, 1), scheme_, curvature, hessian_);
  const double three = model_loss(w_, refined(start, curvature, 3), scheme_, curvature, hessian_);
  EXPECT_LT(one, model_loss(w_, start, scheme_, curvature, hessian_));
  EXPECT_LE(three, one);
  EXPECT_LT(three, 0.98 * layer);
}

// Without gradients all outputs count alike and apart: the layer's own loss.
TEST_P(ModelRefine, WithoutGradientsItIsTheLayersLoss) {
  const OutputCurvature none(kOutputs);
  core::ThreadPool pool(2);
  CodedWeight for_layer = rounded();
  refine(for_layer, w_, kOutputs, kInputs, scheme_, hessian_, {2, true}, pool);
  const double layer = model_loss(w_, for_layer, scheme_, none, hessian_);
  EXPECT_NEAR(model_loss(w_, refined(rounded(), none, 2), scheme_, none, hessian_), layer,
              0.005 * layer);
}

TEST_P(ModelRefine, PrunedWeightsStayAsTheyAre) {
  std::vector<std::uint8_t> kept(w_.size(), 1);
  for (std::size_t i = 0; i < kept.size(); i += 3) {
    kept[i] = 0;
  }
  const CodedWeight start = rounded();
  const CodedWeight end = refined(start, correlated_outputs(4), 2, kept);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == 0) {
      ASSERT_EQ(end.codes[i], start.codes[i]) << i;
    }
    changed += end.codes[i] != start.codes[i] ? 1 : 0;
  }
  EXPECT_GT(changed, kept.size() / 20);
}

INSTANTIATE_TEST_SUITE_P(Schemes, ModelRefine,
                         testing::Values("int4-asym-g32", "lut4-nf4-g32-s7", "mxfp4"),
                         [](const testing::TestParamInfo<const char*>& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace nibble::compress
