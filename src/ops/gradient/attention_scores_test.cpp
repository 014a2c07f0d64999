#include "ops/gradient/attention_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

#include <gtest/gtest.h>

#include "core/random.h"
#include "ops/gradient/gradient_ops.h"

// The scores of attention as a result of their own, and the way back through them.
namespace nibble::ops::gradient {
namespace {

using cpu::Matrix;

struct Case {
  const char* name;
  Mask mask;
  float softcap = 0.0f;
  bool turns = false;  // RoPE
};

class Scores : public testing::TestWithParam<Case> {
 protected:
  Scores() {
    spec_.heads = 4;
    spec_.kv_heads = 2;
    spec_.head_dim = 8;
    spec_.mask = GetParam().mask;
    spec_.softcap = GetParam().softcap;
    if (GetParam().turns) {
      spec_.inverse_frequency = {1.0f, 0.3f, 0.1f, 0.03f};
    }
    for (const std::int64_t rows : {5, 9}) {
      for (std::int32_t i = 0; i < rows; ++i) {
        positions_.push_back(i);
      }
    }
  }

  Matrix random_matrix(std::int64_t rows, std::int64_t columns) {
    Matrix x = ops_.matrix(rows, columns);
    std::generate_n(x.data(), rows * columns,
                    [&] { return static_cast<float>(2.0 * random_.uniform() - 1.0); });
    return x;
  }

  Variable attention(GradientOps& tape, const Variable& qkv) {
    return tape.attention(qkv, spec_, 0, {{}, positions_, slices_}, {});
  }

  // What the loss asks of the scores and of the output.
  double loss(const Matrix& qkv, const Matrix& of_scores, const Matrix* of_out) {
    GradientOps tape(ops_);
    tape.keep_scores();
    const Variable y = attention(tape, tape.variable(ops_.copy(qkv)));
    const Matrix& scores = tape.scores().front().value();
    double sum = std::inner_product(scores.values().begin(), scores.values().end(),
                                    of_scores.values().begin(), 0.0);
    if (of_out != nullptr) {
      sum += std::inner_product(y.value().values().begin(), y.value().values().end(),
                                of_out->values().begin(), 0.0);
    }
    return sum;
  }

  void expect_agreement(bool with_output);

  core::Random random_{11};
  cpu::CpuOps ops_{{2, ActivationPrecision::kFloat}};
  AttentionSpec spec_;
  std::vector<std::int32_t> positions_;
  std::vector<SequenceSlice<cpu::KvCache>> slices_ = {{nullptr, 0, 0, 5}, {nullptr, 0, 5, 9}};
};

void Scores::expect_agreement(bool with_output) {
  const Matrix qkv = random_matrix(14, 8 * 8);
  const Matrix of_scores = random_matrix(1, 4 * (25 + 81));
  const Matrix of_out = random_matrix(14, 4 * 8);
  GradientOps tape(ops_);
  tape.keep_scores();
  const Variable x = tape.variable(ops_.copy(qkv));
  const Variable y = attention(tape, x);
  ASSERT_EQ(tape.scores().size(), 1U);
  tape.add_gradient(tape.scores().front(), of_scores);
  if (with_output) {
    tape.add_gradient(y, of_out);
  }
  tape.backward();
  EXPECT_TRUE(tape.scores().empty());
  const auto& values = x.gradient().values();
  const double size =
      std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  for (int trial = 0; trial < 6; ++trial) {
    const Matrix direction = random_matrix(14, 8 * 8);
    constexpr float kStep = 1.0f / 1024;
    const auto at = [&](float step) {
      Matrix moved = ops_.copy(qkv);
      for (std::int64_t i = 0; i < 14 * 64; ++i) {
        moved.data()[i] += step * direction.data()[i];
      }
      return loss(moved, of_scores, with_output ? &of_out : nullptr);
    };
    const double difference = (at(kStep) - at(-kStep)) / (2.0 * static_cast<double>(kStep));
    const double slope =
        std::inner_product(x.gradient().values().begin(), x.gradient().values().end(),
                           direction.values().begin(), 0.0);
    EXPECT_NEAR(slope, difference, 0.01 * size);
  }
}

TEST_P(Scores, PassBackWhatTheLossAsksOfThem) {
  expect_agreement(false);
}

TEST_P(Scores, PassItBackBesideThatOfTheOutput) {
  expect_agreement(true);
}

// Plain loops.
TEST_P(Scores, AreTheProductsOfQueriesAndKeys) {
  spec_.inverse_frequency.clear();
  const Matrix qkv = random_matrix(14, 8 * 8);
  GradientOps tape(ops_);
  tape.keep_scores();
  (void)attention(tape, tape.variable(ops_.copy(qkv)));
  const float* score = tape.scores().front().value().data();
  for (const auto& slice : slices_) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < slice.rows; ++i) {
        for (std::int64_t j = 0; j < slice.rows; ++j, ++score) {
          const float* q = qkv.row(slice.row + i) + h * 8;
          const float* k = qkv.row(slice.row + j) + (4 + h / 2) * 8;
          const double plain = std::inner_product(q, q + 8, k, 0.0) / std::sqrt(8.0);
          const double cap = static_cast<double>(spec_.softcap);
          const bool seen = spec_.mask.bidirectional ||
                            (j <= i && (spec_.mask.window == 0 || j > i - spec_.mask.window));
          const double wanted = !seen ? 0 : cap > 0 ? cap * std::tanh(plain / cap) : plain;
          EXPECT_NEAR(*score, wanted, 1e-5) << h << " " << i << " " << j;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Masks, Scores,
                         testing::Values(Case{"Both", {.bidirectional = true}},
                                         Case{"Causal", {}, 0.0f, true},
                                         Case{"Window", {.window = 3}},
                                         Case{"Capped", {.bidirectional = true}, 0.5f}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

// Scores of texts of 3 and 6 tokens that read others of 5 and 9.
class MemoryScores : public testing::Test {
 protected:
  MemoryScores() {
    spec_.heads = 4;
    spec_.kv_heads = 2;
    spec_.head_dim = 8;
    spec_.mask.bidirectional = true;
    for (const auto& text : texts_) {
      memories_.push_back(std::make_unique<cpu::KvCache>(KvType::kF32, 1, 2, 8, text.read.rows));
      cpu::KvCache* const memory = memories_.back().get();
      read_.push_back({nullptr, 0, text.read.row, text.read.rows, memory, text.read.rows});
      written_.push_back({nullptr, 0, text.own.row, text.own.rows, memory, text.read.rows});
    }
  }

  Matrix random_matrix(std::int64_t rows, std::int64_t columns) {
    Matrix x = ops_.matrix(rows, columns);
    std::generate_n(x.data(), rows * columns,
                    [&] { return static_cast<float>(2.0 * random_.uniform() - 1.0); });
    return x;
  }

  Variable attend(GradientOps& tape, const Variable& q, const Variable& kv) {
    tape.keep_scores();
    tape.remember(kv, spec_, 0, {{}, {}, read_});
    return tape.attend(q, spec_, 0, {{}, {}, written_}, {});
  }

  core::Random random_{12};
  cpu::CpuOps ops_{{2, ActivationPrecision::kFloat}};
  AttentionSpec spec_;
  const std::vector<TextRows> texts_ = {{{0, 3}, {0, 5}}, {{3, 6}, {5, 9}}};
  std::vector<std::unique_ptr<cpu::KvCache>> memories_;
  std::vector<SequenceSlice<cpu::KvCache>> read_;
  std::vector<SequenceSlice<cpu::KvCache>> written_;
  Matrix q_ = random_matrix(9, 4 * 8);
  Matrix kv_ = random_matrix(14, 2 * 2 * 8);
};

TEST_F(MemoryScores, AreTheProductsOfQueriesAndKeys) {
  GradientOps tape(ops_);
  (void)attend(tape, tape.variable(ops_.copy(q_)), tape.variable(ops_.copy(kv_)));
  ASSERT_EQ(tape.scores().size(), 1U);
  ASSERT_EQ(tape.scores().front().columns(), 4 * (3 * 5 + 6 * 9));
  const float* score = tape.scores().front().value().data();
  for (const auto& [own, read] : texts_) {
    for (std::int64_t h = 0; h < 4; ++h) {
      for (std::int64_t i = 0; i < own.rows; ++i) {
        for (std::int64_t j = 0; j < read.rows; ++j, ++score) {
          const float* q = q_.row(own.row + i) + h * 8;
          const float* k = kv_.row(read.row + j) + h / 2 * 8;
          EXPECT_NEAR(*score, std::inner_product(q, q + 8, k, 0.0) / std::sqrt(8.0), 1e-5);
        }
      }
    }
  }
}

TEST_F(MemoryScores, PassBackWhatTheLossAsksOfThem) {
  const Matrix of_scores = random_matrix(1, 4 * (3 * 5 + 6 * 9));
  const Matrix of_out = random_matrix(9, 4 * 8);
  const auto product = [](const Matrix& a, const Matrix& b) {
    return std::inner_product(a.values().begin(), a.values().end(), b.values().begin(), 0.0);
  };
  for (const bool with_output : {false, true}) {
    GradientOps tape(ops_);
    const Variable q = tape.variable(ops_.copy(q_));
    const Variable kv = tape.variable(ops_.copy(kv_));
    const Variable y = attend(tape, q, kv);
    tape.add_gradient(tape.scores().front(), of_scores);
    if (with_output) {
      tape.add_gradient(y, of_out);
    }
    tape.backward();
    EXPECT_TRUE(tape.scores().empty());
    const double size =
        std::sqrt(product(q.gradient(), q.gradient()) + product(kv.gradient(), kv.gradient()));
    for (int trial = 0; trial < 6; ++trial) {
      const Matrix q_way = random_matrix(9, 4 * 8);
      const Matrix kv_way = random_matrix(14, 2 * 2 * 8);
      constexpr float kStep = 1.0f / 1024;
      const auto loss_at = [&](float step) {
        Matrix moved_q = ops_.copy(q_);
        Matrix moved_kv = ops_.copy(kv_);
        for (std::int64_t i = 0; i < 9 * 32; ++i) {
          moved_q.data()[i] += step * q_way.data()[i];
        }
        for (std::int64_t i = 0; i < 14 * 32; ++i) {
          moved_kv.data()[i] += step * kv_way.data()[i];
        }
        GradientOps other(ops_);
        const Variable out =
            attend(other, other.variable(std::move(moved_q)), other.variable(std::move(moved_kv)));
        return product(other.scores().front().value(), of_scores) +
               (with_output ? product(out.value(), of_out) : 0.0);
      };
      const double difference =
          (loss_at(kStep) - loss_at(-kStep)) / (2.0 * static_cast<double>(kStep));
      EXPECT_NEAR(product(q.gradient(), q_way) + product(kv.gradient(), kv_way), difference,
                  0.01 * size);
    }
  }
}

}  // namespace
}  // namespace nibble::ops::gradient
