// Gradients at the weights, biases, norms and tables of models against differences of their forward
// pass.

#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "models/forward.h"
#include "models/model.h"
#include "ops/gradient/gradient_ops.h"

namespace nibble::models {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::ParameterGradients;

constexpr std::int64_t kRows = 24;

class ParameterGradient : public testing::TestWithParam<const char*> {
 protected:
  ParameterGradient()
      : model_(open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families" /
                          GetParam())),
        ops_({2, ops::ActivationPrecision::kFloat}) {
    std::iota(positions_.begin(), positions_.end(), 0);
    for (auto& token : tokens_) {
      token = static_cast<std::int32_t>(random_.below(model_->network.config.vocabulary));
    }
    ops::MlpActivation& activation = network().config.activation;
    if (activation == ops::MlpActivation::kRelu) {
      activation = ops::MlpActivation::kGelu;  // has no kinks
    }
    weights_ = ops_.matrix(kRows, network().config.vocabulary);
    std::generate_n(weights_.data(), kRows * weights_.columns(), [&] { return random_.normal(); });
  }

  Network& network() { return model_->network; }

  template <typename O>
  auto logits_of(O& ops) {
    const std::vector<ops::SequenceSlice<ops::cpu::KvCache>> slices = {{nullptr, 0, 0, 15},
                                                                       {nullptr, 0, 15, 9}};
    const Batch<O> batch{tokens_, positions_, slices};
    return logits(ops, network(), hidden_states(ops, network(), batch));
  }

  double loss() {
    const Matrix y = logits_of(ops_);
    return std::inner_product(y.values().begin(), y.values().end(), weights_.values().begin(), 0.0);
  }

  // The gradient that goes to `gradient` beside differences along random directions.
  void expect_agreement(std::span<float> values, const std::vector<float>& gradient,
                        const std::string& what) {
    double squares = 0;
    for (const float g : gradient) {
      squares += static_cast<double>(g) * g;
    }
    EXPECT_GT(squares, 0.0) << what;
    const std::vector<float> start(values.begin(), values.end());
    for (int trial = 0; trial < 3; ++trial) {
      std::vector<float> direction(values.size());
      std::generate(direction.begin(), direction.end(), [&] { return random_.normal(); });
      const float step = 0x1p-10f * root_mean_square(start);
      const auto loss_at = [&](float factor) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] = start[i] + factor * direction[i];
        }
        return loss();
      };
      const double difference =
          (loss_at(step) - loss_at(-step)) / (2.0 * static_cast<double>(step));
      std::copy(start.begin(), start.end(), values.begin());
      const double slope =
          std::inner_product(gradient.begin(), gradient.end(), direction.begin(), 0.0);
      EXPECT_NEAR(slope, difference, 0.02 * std::sqrt(squares)) << what << " " << trial;
    }
  }

  static float root_mean_square(const std::vector<float>& values) {
    const double sum = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    return std::max(0.05f, static_cast<float>(std::sqrt(sum / static_cast<double>(values.size()))));
  }

  // A float32 copy in the place of a weight or table, which can be written to.
  static std::span<float> own(formats::PackedWeight& weight) {
    core::Tensor copy = core::Tensor::zeros(core::DType::kF32, {weight.n, weight.k});
    auto values = copy.mutable_data<float>();
    for (std::int64_t row = 0; row < weight.n; ++row) {
      formats::decode_row(weight, row,
                          values.subspan(static_cast<std::size_t>(row * weight.k),
                                         static_cast<std::size_t>(weight.k)));
    }
    weight = formats::dense_weight(std::move(copy));
    return values;
  }
  static std::span<float> own(core::Tensor& table) {
    table = core::from_float32(core::to_float32(table), table.shape(), core::DType::kF32);
    return table.mutable_data<float>();
  }
  static std::span<float> own(std::vector<float>& vector) { return vector; }
  static std::span<float> own(models::TokenTable& table) {
    core::Tensor plain = table.plain();
    const std::span<float> values = own(plain);
    table = std::move(plain);
    return values;
  }

  // What operators know the numbers by.
  template <typename Object>
  static const Object& known(const Object& object) {
    return object;
  }
  static const core::Tensor& known(const models::TokenTable& table) { return table.plain(); }

  template <typename Object>
  void expect_gradient(Object& object, const std::string& what) {
    const std::span<float> values = own(object);
    std::vector<float> gradient(values.size());
    ParameterGradients parameters;
    parameters.add(known(object), gradient);
    GradientOps tape(ops_);
    tape.set_parameters(&parameters);
    const auto y = logits_of(tape);
    tape.backward(y, ops_.copy(weights_));
    expect_agreement(values, gradient, what);
  }

  core::Random random_{11};
  std::shared_ptr<Model> model_;
  CpuOps ops_;
  Matrix weights_;
  std::vector<std::int32_t> tokens_ = std::vector<std::int32_t>(kRows);
  std::vector<std::int32_t> positions_ = std::vector<std::int32_t>(kRows);
};

TEST_P(ParameterGradient, AgreesWithDifferencesOfTheForwardPass) {
  Block& block = network().decoder.blocks.front();
  for (ops::LinearSet* set : linear_sets(block)) {
    for (ops::Linear& part : set->parts) {
      expect_gradient(part.weight, part.name);
      // Without RoPE the bias of keys adds the same to all scores of a query: its gradient is 0.
      const bool without_effect =
          part.name.ends_with("k_proj") && block.attention.spec.inverse_frequency.empty();
      if (!part.bias.empty() && !without_effect) {
        expect_gradient(part.bias, part.name + ".bias");
      }
    }
  }
  for (ops::Norm* norm : {&block.attention_norm, &block.mlp_norm}) {
    expect_gradient(norm->weight, norm->name);
    if (!norm->bias.empty()) {
      expect_gradient(norm->bias, norm->name + ".bias");
    }
  }
  expect_gradient(network().embeddings.tokens, "embedding");
  if (!network().embeddings.positions.empty()) {
    expect_gradient(network().embeddings.positions, "positions");
  }
  expect_gradient(network().output.parts.front().weight, "output");
}

// Two passes add up; a part that is not named gets nothing.
TEST_P(ParameterGradient, IsAddedUp) {
  ops::Linear& layer = network().decoder.blocks.front().mlp->down.parts.front();
  std::vector<float> once(static_cast<std::size_t>(layer.weight.n * layer.weight.k));
  std::vector<float> twice = once;
  for (auto* gradient : {&once, &twice}) {
    ParameterGradients parameters;
    parameters.add(layer.weight, *gradient);
    GradientOps tape(ops_);
    tape.set_parameters(&parameters);
    for (int pass = 0; pass < (gradient == &once ? 1 : 2); ++pass) {
      tape.backward(logits_of(tape), ops_.copy(weights_));
    }
  }
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_NEAR(twice[i], 2 * once[i], 1e-4f * std::max(1.0f, std::abs(once[i])));
  }
  ParameterGradients parameters;
  EXPECT_THROW(parameters.add(layer.weight, std::span(once).first(3)), core::Error);
  EXPECT_TRUE(parameters.of(layer.weight).empty());
}

TEST_P(ParameterGradient, HasTheSameBitsForAnyNumberOfThreads) {
  ops::Linear& layer = network().decoder.blocks.front().attention.qkv.parts.front();
  std::vector<std::vector<float>> found;
  for (const int threads : {1, 3}) {
    CpuOps ops({threads, ops::ActivationPrecision::kFloat});
    std::vector<float> gradient(static_cast<std::size_t>(layer.weight.n * layer.weight.k));
    ParameterGradients parameters;
    parameters.add(layer.weight, gradient);
    GradientOps tape(ops);
    tape.set_parameters(&parameters);
    tape.backward(logits_of(tape), ops.copy(weights_));
    found.push_back(gradient);
  }
  EXPECT_EQ(found[0], found[1]);
}

INSTANTIATE_TEST_SUITE_P(All, ParameterGradient, testing::Values("llama", "gpt2", "opt", "qwen2"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace nibble::models
