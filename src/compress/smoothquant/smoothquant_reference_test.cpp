// SmoothQuant through the passes and the kernels, against a NumPy transcription of the paper
// (tests/reference/make_smoothquant.py).

#include <numeric>

#include "compress/pipeline/reference_layer_for_tests.h"
#include "compress/recipe/apply_for_tests.h"

namespace nibble::compress {
namespace {

class SmoothQuantReference : public ReferenceLayer {
 protected:
  SmoothQuantReference() : ReferenceLayer("smoothquant.json") {}

  static constexpr std::int64_t kFirst = 12;  // outputs of the first layer

  // The reference's inputs, with outlying channels.
  ops::cpu::Matrix outlying_inputs() {
    ops::cpu::Matrix x = inputs();
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t j = 0; j < kInputs; j += 37) {
        x.row(t)[j] *= 24.0f;
      }
    }
    return x;
  }

  // The reference's two layers behind a norm.
  SetWork two_layers() {
    linears_[0].weight.n = kFirst;
    linears_[1].weight.n = kOutputs - kFirst;
    SetWork work;
    work.layers.resize(2);
    put_behind_norm(work);
    auto begin = weights_.cbegin();
    for (std::size_t i = 0; i < 2; ++i) {
      linears_[i].weight.k = kInputs;
      LayerWork& layer = work.layers[i];
      layer.layer = &linears_[i];
      layer.scheme = formats::parse_scheme("int8-sym-row-a8");
      const auto end = begin + linears_[i].weight.n * kInputs;
      layer.target.assign(begin, end);
      for (float& w : layer.target) {
        w *= i == 0 ? 1.0f : 4.0f;
      }
      layer.weights = layer.target;
      begin = end;
    }
    return work;
  }

  // |x^ W^^T - x W^T|^2 / |x W^T|^2 of both layers, as the kernels compute them behind the steps of
  // a recipe.
  std::vector<double> losses(const std::vector<RecipeStep>& steps) {
    ops::cpu::Matrix x = outlying_inputs();
    InputStatistics statistics(StatisticsKind::kHessian, kInputs);
    statistics.add(x, ops_.pool());
    SetWork work = two_layers();
    work.statistics = &statistics;
    const std::vector<std::vector<float>> originals = {work.layers[0].target,
                                                       work.layers[1].target};
    for (const RecipeStep& step : steps) {
      apply_on_cpu(*make_pass(step.pass, *step.options), work, ops_.pool());
    }
    ops::LinearSet set;
    set.id = 0;
    set.parts = {{"first", *work.layers[0].packed, {}}, {"second", *work.layers[1].packed, {}}};
    const ops::cpu::Matrix y = run(set, x);
    return {loss_of(x, originals[0], y, 0), loss_of(x, originals[1], y, kFirst)};
  }

  // What the kernels make of the norm's output.
  ops::cpu::Matrix run(const ops::LinearSet& set, const ops::cpu::Matrix& x) {
    ops::cpu::Matrix scaled = ops_.matrix(kTokens, kInputs);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t j = 0; j < kInputs; ++j) {
        scaled.row(t)[j] = x.row(t)[j] * norm_.weight[static_cast<std::size_t>(j)];
      }
    }
    ops_.prepare(set);
    auto input = ops_.input(scaled, set);
    ops::cpu::Matrix y = ops_.linear(input, set);
    ops_.release(set);
    return y;
  }

  static double loss_of(const ops::cpu::Matrix& x, const std::vector<float>& w,
                        const ops::cpu::Matrix& y, std::int64_t first) {
    double error = 0;
    double whole = 0;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t n = 0; n < std::ssize(w) / kInputs; ++n) {
        const double exact =
            std::inner_product(x.row(t), x.row(t) + kInputs, w.begin() + n * kInputs, 0.0);
        const double difference = static_cast<double>(y.row(t)[first + n]) - exact;
        error += difference * difference;
        whole += exact * exact;
      }
    }
    return error / whole;
  }

  void expect_near_golden(const std::string& name, const std::vector<double>& found) {
    const auto expected = golden_.at(name).get<std::vector<double>>();
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(found[i], expected[i], 0.005 * expected[i]) << name << ", layer " << i;
    }
  }

  ops::Linear linears_[2];
};

TEST_F(SmoothQuantReference, OutputsLoseWhatNumpyLoses) {
  expect_near_golden("w8a8", losses({{"rtn"}}));
  expect_near_golden("smoothquant 0.5", losses({{"smoothquant"}, {"rtn"}}));
  expect_near_golden("smoothquant 0.85",
                     losses({{"smoothquant", core::Json{{"alpha", 0.85}}}, {"rtn"}}));
}

}  // namespace
}  // namespace nibble::compress
