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
      token = static_cast<std::int32_t>(random_.below(model_->decoder.config.vocabulary));
    }
  }

  // Two sequences in one batch: 15 and 9 rows.
  template <typename O>
  auto logits_of(O& ops, typename O::Matrix x) {
    const std::vector<ops::SequenceSlice<ops::cpu::KvCache>> slices = {{nullptr, 0, 0, 15},
                                                                       {nullptr, 0, 15, 9}};
    const Batch<O> batch{tokens_, positions_, slices};
    std::optional<typename O::Matrix> delta;
    for (std::size_t layer = 0; layer < model_->decoder.blocks.size(); ++layer) {
      delta = run_block(ops, model_->decoder.config, model_->decoder.blocks[layer],
                        static_cast<std::int64_t>(layer), batch, x, delta);
    }
    ops.add(x, *delta);
    return logits(ops, model_->decoder, x);
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

  static constexpr auto kFloat = ops::ActivationPrecision::kFloat;
  core::Random random_{7};
  std::shared_ptr<Model> model_;
  CpuOps ops_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> positions_;
};

TEST_P(Gradient, AgreesWithDifferencesOfTheForwardPass) {
  const std::int64_t hidden = model_->decoder.config.hidden;
  const Matrix start = random_matrix(kRows, hidden);
  const Matrix weights = random_matrix(kRows, model_->decoder.config.vocabulary);

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
  for (const Block& block : model_->decoder.blocks) {
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

// Without mixtral: a router's shares are constants for the gradient (gradient_ops.h).
INSTANTIATE_TEST_SUITE_P(All, Gradient,
                         testing::Values("gpt2", "llama", "llama-bias-tied", "llama-yarn-rope",
                                         "mistral", "opt", "qwen2", "qwen2-window", "qwen3"),
                         [](const testing::TestParamInfo<const char*>& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace nibble::models
