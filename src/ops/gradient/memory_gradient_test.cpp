#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "core/random.h"
#include "models/encoder_forward.h"
#include "models/model.h"
#include "ops/gradient/gradient_ops.h"

// The backward pass of an encoder-decoder, through attention to texts that were read, against
// differences of its forward pass.
namespace nibble::models {
namespace {

using ops::cpu::CpuOps;
using ops::cpu::KvCache;
using ops::cpu::Matrix;
using ops::gradient::GradientOps;
using ops::gradient::Variable;

// Two texts that are read, and two that are written.
constexpr std::int64_t kRead[] = {9, 5};
constexpr std::int64_t kWritten[] = {4, 8};

class MemoryGradient : public testing::TestWithParam<const char*> {
 protected:
  MemoryGradient()
      : model_(
            open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/families" / GetParam())),
        ops_({2, ops::ActivationPrecision::kFloat}) {
    const NetworkConfig& config = model_->network.config;
    for (int text = 0; text < 2; ++text) {
      caches_.push_back(std::make_unique<KvCache>(ops::KvType::kF32, config.layers, config.kv_heads,
                                                  config.head_dim, kRead[text]));
    }
    read_ = slices(kRead);
    written_ = slices(kWritten);
  }

  std::vector<ops::SequenceSlice<KvCache>> slices(const std::int64_t (&rows)[2]) {
    return {{nullptr, 0, 0, rows[0], caches_[0].get(), kRead[0]},
            {nullptr, 0, rows[0], rows[1], caches_[1].get(), kRead[1]}};
  }

  // Logits of the residual streams that go into both stacks.
  template <typename O>
  typename O::Matrix logits_of(O& ops, typename O::Matrix read, typename O::Matrix written) {
    const Network& network = model_->network;
    std::vector<std::int32_t> zeros(14);
    const Batch<O> source{zeros, zeros, read_};
    run_stack(ops, network.config, network.encoder, source, read);
    remember(ops, network, source, encoder_states(ops, network, std::move(read)));
    const Batch<O> target{zeros, zeros, written_};
    run_stack(ops, network.config, network.decoder, target, written);
    return logits(ops, network, written);
  }

  Matrix random_matrix(std::int64_t rows, std::int64_t columns) {
    Matrix x = ops_.matrix(rows, columns);
    std::generate_n(x.data(), rows * columns,
                    [&] { return static_cast<float>(2.0 * random_.uniform() - 1.0); });
    return x;
  }

  Matrix moved(const Matrix& start, const Matrix& direction, float step) {
    Matrix x = ops_.copy(start);
    for (std::int64_t i = 0; i < x.rows() * x.columns(); ++i) {
      x.data()[i] += step * direction.data()[i];
    }
    return x;
  }

  core::Random random_{7};
  std::shared_ptr<Model> model_;
  CpuOps ops_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  std::vector<ops::SequenceSlice<KvCache>> read_;
  std::vector<ops::SequenceSlice<KvCache>> written_;
};

double product(const Matrix& a, const Matrix& b) {
  return std::inner_product(a.values().begin(), a.values().end(), b.values().begin(), 0.0);
}

TEST_P(MemoryGradient, AgreesWithDifferencesOfTheForwardPass) {
  const std::int64_t hidden = model_->network.config.hidden;
  const Matrix read = random_matrix(14, hidden);
  const Matrix written = random_matrix(12, hidden);
  const Matrix weights = random_matrix(12, model_->network.config.vocabulary);
  GradientOps tape(ops_);
  const Variable x = tape.variable(ops_.copy(read));
  const Variable y = tape.variable(ops_.copy(written));
  tape.backward(logits_of(tape, x, y), ops_.copy(weights));

  constexpr float kStep = 1.0f / 4096;
  const auto expect_slope = [&](const Matrix& gradient,
                                const std::function<double(float step)>& loss, double slope) {
    const double difference = (loss(kStep) - loss(-kStep)) / (2.0 * static_cast<double>(kStep));
    EXPECT_NEAR(slope, difference, 0.01 * std::sqrt(product(gradient, gradient)));
  };
  for (int trial = 0; trial < 8; ++trial) {
    const Matrix a = random_matrix(14, hidden);
    expect_slope(
        x.gradient(),
        [&](float step) {
          return product(logits_of(ops_, moved(read, a, step), ops_.copy(written)), weights);
        },
        product(x.gradient(), a));
    const Matrix b = random_matrix(12, hidden);
    expect_slope(
        y.gradient(),
        [&](float step) {
          return product(logits_of(ops_, ops_.copy(read), moved(written, b, step)), weights);
        },
        product(y.gradient(), b));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MemoryGradient, testing::Values("bart", "mbart"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST(EncoderGradient, OfScalesAndActivations) {
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  GradientOps tape(ops);
  Matrix x = ops.matrix(1, 3);
  const float values[] = {-0.5f, 0.25f, 1.0f};
  std::copy_n(values, 3, x.data());
  const Variable start = tape.variable(std::move(x));
  Variable y = start;
  tape.scale(y, 2.0f);
  tape.activate(y, ops::MlpActivation::kTanh);
  Matrix ones = ops.matrix(1, 3);
  std::fill_n(ones.data(), 3, 1.0f);
  tape.backward(y, std::move(ones));
  for (int i = 0; i < 3; ++i) {
    const float t = std::tanh(2 * values[i]);
    EXPECT_NEAR(y.value().data()[i], t, 1e-6f);
    EXPECT_NEAR(start.gradient().data()[i], 2 * (1 - t * t), 1e-5f);
  }
}

}  // namespace
}  // namespace nibble::models
