#include "tune/qat/loss_terms.h"

#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "io/json_file.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/attention_scores.h"
#include "tune/qat/loss_words.h"

// Terms of the loss and their gradients against PyTorch's (tests/reference/make_distillation.py).
namespace nibble::tune {
namespace {

using models::Problem;
using ops::cpu::Matrix;

class LossTermsTest : public testing::Test {
 protected:
  LossTermsTest()
      : golden_(io::load_json_file(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests" /
                                   "reference" / "distillation.json")) {}

  Matrix matrix(const char* name, std::int64_t rows, std::int64_t columns) {
    const auto values = golden_.at(name).get<std::vector<float>>();
    const std::int64_t stride = std::ssize(values) / rows;
    Matrix x = ops_.matrix(rows, columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::copy_n(values.data() + i * stride, columns, x.row(i));
    }
    return x;
  }

  // What a term gives is `name`; twice the weight is twice the gradient, which is added.
  void expect_golden(const char* name, std::int64_t rows, std::int64_t columns,
                     const std::function<double(double weight, Matrix& gradient)>& loss) {
    const auto& wanted = golden_.at(name);
    Matrix gradient = ops_.matrix(rows, columns);
    std::fill_n(gradient.data(), rows * columns, 1.0f);
    EXPECT_NEAR(loss(2.0, gradient), wanted.at("value").get<double>(), 1e-6) << name;
    const auto slopes = wanted.at("gradient").get<std::vector<float>>();
    ASSERT_EQ(std::ssize(slopes), rows * columns);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      EXPECT_NEAR(gradient.data()[i], 1.0f + 2.0f * slopes[i], 1e-6f) << name << " " << i;
    }
  }

  std::vector<Label> labels() {
    std::vector<Label> labels;
    for (std::size_t i = 0; i < 5; ++i) {
      labels.push_back(
          {golden_["labels"][i].get<std::int32_t>(), golden_["values"][i].get<float>()});
    }
    return labels;
  }

  core::Json golden_;
  ops::cpu::CpuOps ops_{{1, ops::ActivationPrecision::kFloat}};
};

TEST_F(LossTermsTest, OfLabels) {
  expect_golden("label_loss", 5, 3, [&](double weight, Matrix& gradient) {
    return add_label_loss(Problem::kSingleLabel, matrix("student", 5, 3), labels(), weight,
                          gradient);
  });
  expect_golden("regression_loss", 5, 1, [&](double weight, Matrix& gradient) {
    return add_label_loss(Problem::kRegression, matrix("student", 5, 1), labels(), weight,
                          gradient);
  });
}

TEST_F(LossTermsTest, OfLogitsAndStates) {
  const Matrix student = matrix("student", 5, 3);
  const Matrix teacher = matrix("teacher", 5, 3);
  expect_golden("logit_loss", 5, 3, [&](double weight, Matrix& gradient) {
    return add_logit_loss(Problem::kSingleLabel, student, teacher, weight, gradient);
  });
  expect_golden("squared_difference", 5, 3, [&](double weight, Matrix& gradient) {
    return add_logit_loss(Problem::kRegression, student, teacher, weight, gradient);
  });
  expect_golden("squared_difference", 5, 3, [&](double weight, Matrix& gradient) {
    return add_squared_difference(student, teacher, weight, gradient);
  });
}

TEST_F(LossTermsTest, OfAttention) {
  const std::int64_t count = 2 * (9 + 16);
  const Matrix student = matrix("student_scores", 1, count);
  const Matrix teacher = matrix("teacher_scores", 1, count);
  const auto texts =
      ops::gradient::reading_themselves(std::vector<ops::gradient::RowRange>{{0, 3}, {3, 4}});
  for (const bool causal : {false, true}) {
    ops::AttentionSpec spec;
    spec.heads = 2;
    spec.kv_heads = 1;
    spec.mask.bidirectional = !causal;
    const LayerScores scores = {spec, texts, student, teacher};
    expect_golden(causal ? "attention_causal" : "attention_both", 1, count,
                  [&](double weight, Matrix& gradient) {
                    return add_attention_loss(scores, weight, gradient);
                  });
    expect_golden(
        causal ? "scores_causal" : "scores_both", 1, count,
        [&](double weight, Matrix& gradient) { return add_score_loss(scores, weight, gradient); });
    const LayerScores same = {spec, texts, student, student};
    Matrix gradient = ops_.zeros(1, count);
    EXPECT_EQ(add_attention_loss(same, 1.0, gradient), 0.0);
    EXPECT_EQ(add_score_loss(same, 1.0, gradient), 0.0);
    for (const float slope : gradient.values()) {
      EXPECT_EQ(slope, 0.0f);
    }
  }
}

TEST_F(LossTermsTest, AreForHeadsThatLabelTexts) {
  const Matrix x = matrix("student", 5, 3);
  Matrix gradient = ops_.zeros(5, 3);
  EXPECT_THROW((void)add_label_loss(Problem::kMultiLabel, x, labels(), 1, gradient), core::Error);
  EXPECT_THROW((void)add_logit_loss(Problem::kTokenLabels, x, x, 1, gradient), core::Error);
}

TEST(LossWords, NameTermsAndTheirWeights) {
  const LossWeights weights = parse_loss_weights("logits=1,hidden=0.25,scores=0");
  EXPECT_EQ(weights.logits, 1.0);
  EXPECT_EQ(weights.hidden, 0.25);
  EXPECT_EQ(weights.labels, 0.0);
  EXPECT_FALSE(weights.needs_scores());
  EXPECT_EQ(to_string(weights), "logits=1,hidden=0.25");
  EXPECT_EQ(to_string(parse_loss_weights(to_string(weights))), to_string(weights));
}

TEST(LossWords, RefuseOthers) {
  for (const char* words : {"logit=1", "logits", "logits=", "logits=-1", "logits=nan", "logits=1x",
                            "logits=1,logits=2", ",", "hidden=1,,labels=1"}) {
    EXPECT_THROW((void)parse_loss_weights(words), core::Error) << words;
  }
}

}  // namespace
}  // namespace nibble::tune
