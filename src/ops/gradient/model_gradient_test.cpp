#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "core/random.h"
#include "models/forward.h"
#include "models/model.h"
#include "ops/gradient/gradient_ops.h"

// The backward pass of every family against differences of its forward pass.
namespace nibble::models {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

constexpr std::int64_t kRows = 24;
const std::filesystem::path kFamilies =
    std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" / "families";

class Gradient : public testing::TestWithParam<const char*> {
 protected:
  Gradient() : model_(open_model(kFamilies / GetParam())), ops_({2, kFloat}) {
    tokens_.resize(kRows);
    positions_.resize(kRows);
    std::iota(positions_.begin(), positions_.end(), 0);
    for (auto& token : tokens_) {
      token = static_cast<std::int32_t>(random_.below(model_->network.config.vocabulary));
    }
  }

  // Two sequences in one batch: 15 and 9 rows.
  template <typename O>
  auto logits_of(O& ops, typename O::Matrix x) {
    const std::vector<ops::SequenceSlice<ops::cpu::KvCache>> slices = {{nullptr, 0, 0, 15},
                                                                       {nullptr, 0, 15, 9}};
    const Batch<O> batch{tokens_, positions_, slices};
    run_stack(ops, model_->network.config, model_->network.decoder, batch, x);
    return logits(ops, model_->network, x);
  }

  Matrix random_matrix(std::int64_t rows, std::int64_t columns) {
    Matrix x = ops_.matrix(rows, columns);
    std::generate_n(x.data(), rows * columns,
                    [&] { return static_cast<float>(2.0 * random_.uniform() - 1.0); });
    return x;
  }

  // sum of weights * logits at start + step * direction
  double loss_at(const Matrix& start, const Matrix& direction, float step, const Matrix& weights) {
    Matrix x = ops_.matrix(start.rows(), start.columns());
    for (std::int64_t i = 0; i < x.rows() * x.columns(); ++i) {
      x.data()[i] = start.data()[i] + step * direction.data()[i];
    }
    const Matrix y = logits_of(ops_, std::move(x));
    return std::inner_product(y.values().begin(), y.values().end(), weights.values().begin(), 0.0);
  }

  void expect_agreement();

  // Differences across the kink of ReLU are no slope; the more of them, the deeper the model.
  void smoothe() {
    ops::MlpActivation& activation = model_->network.config.activation;
    activation = activation == ops::MlpActivation::kRelu ? ops::MlpActivation::kGelu : activation;
  }

  static constexpr auto kFloat = ops::ActivationPrecision::kFloat;
  core::Random random_{7};
  std::shared_ptr<Model> model_;
  CpuOps ops_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
};

void Gradient::expect_agreement() {
  const std::int64_t hidden = model_->network.config.hidden;
  const Matrix start = random_matrix(kRows, hidden);
  const Matrix weights = random_matrix(kRows, model_->network.config.vocabulary);

  GradientOps tape(ops_);
  std::map<int, std::int64_t> calls;
  tape.set_observer([&](const ops::LinearSet& set, const Matrix& x, const Matrix& gradient) {
    ++calls[set.id];
    EXPECT_EQ(x.columns(), set.k());
    EXPECT_EQ(gradient.columns(), set.n());
    EXPECT_EQ(x.rows(), gradient.rows());
  });
  const Variable x = tape.variable(ops_.copy(start));
  const Variable y = logits_of(tape, x);
  tape.backward(y, ops_.copy(weights));
  ASSERT_EQ(x.gradient().rows(), kRows);
  for (const Block& block : model_->network.decoder.blocks) {
    for (const ops::LinearSet* set : linear_sets(block)) {
      EXPECT_EQ(calls[set->id], 1) << set->parts.front().name;
    }
  }

  double norm = 0;
  for (const float g : x.gradient().values()) {
    norm += static_cast<double>(g) * g;
  }
  const double size = std::sqrt(norm);
  for (int trial = 0; trial < 8; ++trial) {
    const Matrix direction = random_matrix(kRows, hidden);
    constexpr float kStep = 1.0f / 4096;
    const double difference =
        (loss_at(start, direction, kStep, weights) - loss_at(start, direction, -kStep, weights)) /
        (2.0 * static_cast<double>(kStep));
    const double slope =
        std::inner_product(x.gradient().values().begin(), x.gradient().values().end(),
                           direction.values().begin(), 0.0);
    EXPECT_NEAR(slope, difference, 0.01 * size) << "direction " << trial << " of " << size;
  }
}

TEST_P(Gradient, AgreesWithDifferencesOfTheForwardPass) {
  if (model_->network.decoder.norms == NormPlacement::kPost) {
    smoothe();
  }
  expect_agreement();
}

// The same where tokens also see those behind them.
TEST_P(Gradient, AgreesInBothDirections) {
  smoothe();
  for (Block& block : model_->network.decoder.blocks) {
    block.attention.spec.mask = {.bidirectional = true};
  }
  expect_agreement();
}

// What comes later was not there when the first part was computed.
TEST_P(Gradient, BothDirectionsTakeWholeSequences) {
  const Block& block = model_->network.decoder.blocks.front();
  ops::AttentionSpec spec = block.attention.spec;
  spec.mask = {.bidirectional = true};
  Matrix qkv = random_matrix(1, block.attention.qkv.n());
  const std::int32_t position = 3;
  const ops::SequenceSlice<ops::cpu::KvCache> slice{nullptr, position, 0, 1};
  EXPECT_THROW(
      (void)ops_.attention(qkv, spec, 0, {{}, {&position, 1}, {&slice, 1}}, block.attention.out),
      core::Error);
}

// Without mixtures of experts: a router's shares are constants for the gradient (gradient_ops.h).
INSTANTIATE_TEST_SUITE_P(All, Gradient,
                         testing::Values("gemma", "gemma2", "gemma3-text", "gpt2", "llama",
                                         "llama-bias-tied", "llama-yarn-rope", "mistral", "opt",
                                         "opt-post-norm", "opt-projected", "phi3",
                                         "phi4-short-rope", "qwen2", "qwen2-window", "qwen3"),
                         [](const testing::TestParamInfo<const char*>& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace nibble::models
