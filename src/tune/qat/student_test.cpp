#include "tune/qat/student.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "core/error.h"
#include "engine/encoder.h"
#include "formats/format.h"
#include "tune/qat/distillation.h"
#include "tune/qat/encoder_for_tests.h"

// A student, its pass, and the gradient of its loss.
namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;

constexpr LossWeights kAllTerms = {0.7, 1.1, 0.9, 1.3, 0.4};

class StudentTest : public testing::Test {
 protected:
  LossTerms step(Student& student, const models::Network& teacher, const LossWeights& weights) {
    for (const auto& parameter : student.parameters()) {
      std::fill(parameter->gradient.begin(), parameter->gradient.end(), 0.0f);
    }
    Distillation distillation(teacher, teacher_ops_, student.network(), ops_, weights);
    return distillation.step(all_of(texts_), student.gradients());
  }

  // Other numbers than the model's.
  void move(Student& student, float step) {
    for (const auto& parameter : student.parameters()) {
      std::for_each(parameter->values.begin(), parameter->values.end(),
                    [&](float& value) { value += step * random_.normal(); });
    }
    student.round();
  }

  core::Random random_{21};
  std::shared_ptr<models::Model> model_ = small_encoder();
  std::vector<LabelledText> texts_ = random_texts(6, 4);
  CpuOps teacher_ops_{{2, ops::ActivationPrecision::kFloat}};
  CpuOps ops_{{2, ops::ActivationPrecision::kFloat}};
};

double size_of(const Parameters& parameters) {
  double sum = 0;
  for (const auto& parameter : parameters) {
    for (const float g : parameter->gradient) {
      sum += static_cast<double>(g) * static_cast<double>(g);
    }
  }
  return std::sqrt(sum);
}

TEST_F(StudentTest, InFloatIsTheTeacher) {
  Student student(model_->network, rounded_by("f32"), false, ops_);
  const LossTerms terms = step(student, model_->network, {0, 1, 1, 1, 1});
  EXPECT_EQ(terms.logits, 0.0);
  EXPECT_EQ(terms.hidden, 0.0);
  EXPECT_EQ(terms.attention, 0.0);
  EXPECT_EQ(terms.scores, 0.0);
  EXPECT_EQ(size_of(student.parameters()), 0.0);
}

TEST_F(StudentTest, RoundedIsNotTheTeacher) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), false, ops_);
  const LossTerms terms = step(student, model_->network, {0, 1, 1, 1, 1});
  EXPECT_GT(terms.logits, 1e-6);
  EXPECT_GT(terms.hidden, 1e-4);
  EXPECT_GT(terms.attention, 1e-6);
  EXPECT_GT(terms.scores, 1e-6);
  EXPECT_GT(size_of(student.parameters()), 1e-3);
}

// Every parameter's gradient against differences of the loss, all terms together, in float. A
// direction for each parameter.
TEST_F(StudentTest, HasTheGradientOfItsLoss) {
  Student student(model_->network, rounded_by("f32"), false, ops_);
  move(student, 0.05f);
  step(student, model_->network, kAllTerms);
  std::vector<std::vector<float>> gradients;
  for (const auto& parameter : student.parameters()) {
    gradients.push_back(parameter->gradient);
  }
  const double largest = size_of(student.parameters());
  int checked = 0;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    Parameter& parameter = *student.parameters()[p];
    const std::vector<float> start = parameter.values;
    const std::vector<float>& gradient = gradients[p];
    const double size =
        std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    if (size < 1e-4 * largest) {  // keys' biases: softmax does not see them, scores do
      continue;
    }
    // Along the gradient, where a wrong one shows most.
    constexpr double kStep = 1.0 / 256;
    const auto loss_at = [&](double step_size) {
      for (std::size_t i = 0; i < start.size(); ++i) {
        parameter.values[i] =
            start[i] + static_cast<float>(step_size * static_cast<double>(gradient[i]) / size);
      }
      student.round();
      return step(student, model_->network, kAllTerms).total(kAllTerms);
    };
    const double difference = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    EXPECT_NEAR(difference, size, 0.01 * size + 1e-4 * largest) << parameter.name;
    parameter.values = start;
    ++checked;
  }
  student.round();
  EXPECT_GT(checked, 30);
}

// The pass that is trained is the one that runs: the same bits.
TEST_F(StudentTest, IsThePackedModel) {
  for (const char* scheme :
       {"int4-sym-row-a4", "int4-asym-row-a4-asym", "int4-sym-g12-a8", "int8-sym-row-a8"}) {
    Student student(model_->network, rounded_by(scheme), false, ops_);
    move(student, 0.02f);
    auto model = std::make_shared<models::Model>(*model_);
    model->network = student.network();
    const auto encoder = engine::make_encoder(model, engine::RunnerOptions());
    std::vector<engine::EncoderText> texts;
    for (const LabelledText& text : texts_) {
      texts.push_back({text.tokens, text.types});
    }
    const engine::EncoderRows logits = encoder->classify(texts);
    // Cross-entropy of what runs is the label loss of the student.
    double loss = 0;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const auto row = logits.row(static_cast<std::int64_t>(i));
      double sum = 0;
      for (const float x : row) {
        sum += std::exp(static_cast<double>(x));
      }
      loss += (std::log(sum) - row[static_cast<std::size_t>(texts_[i].label.output)]) /
              static_cast<double>(texts_.size());
    }
    EXPECT_NEAR(step(student, model_->network, {.labels = 1}).labels, loss, 1e-12) << scheme;
  }
}

TEST_F(StudentTest, IsStoredAsItRuns) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), false, ops_);
  move(student, 0.02f);
  const auto blocks = student.compressed();
  ASSERT_EQ(blocks.size(), model_->network.encoder.blocks.size());
  std::size_t numbers = 0;
  for (const auto& block : blocks) {
    numbers += block.layers.size() + block.vectors.size();
  }
  EXPECT_EQ(numbers, student.parameters().size());
  for (const auto& parameter : student.parameters()) {
    for (const auto& block : blocks) {
      if (const auto found = block.vectors.find(parameter->name); found != block.vectors.end()) {
        EXPECT_EQ(found->second, parameter->values) << parameter->name;
      }
    }
  }
}

TEST_F(StudentTest, KeepsPairs) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), true, ops_);
  for (const models::Block& block : student.network().encoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& layer : set->parts) {
        std::vector<float> row(static_cast<std::size_t>(layer.weight.k));
        for (std::int64_t n = 0; n < layer.weight.n; ++n) {
          formats::decode_row(layer.weight, n, row);
          for (std::size_t i = 0; i + 4 <= row.size(); i += 4) {
            EXPECT_GE(std::count(row.begin() + static_cast<std::ptrdiff_t>(i),
                                 row.begin() + static_cast<std::ptrdiff_t>(i) + 4, 0.0f),
                      2)
                << layer.name;
          }
        }
      }
    }
  }
  EXPECT_GT(
      size_of(student.parameters()) + step(student, model_->network, {0, 1, 1}).total({0, 1, 1}),
      0.0);
}

TEST(Pairs, AreTheLargestOfFour) {
  std::vector<float> values = {1, -4, 3, 2, 0, 0, 5, 0, 1, 1, 1, 1, 7, 8, 9};
  keep_pairs(values);
  EXPECT_EQ(values, (std::vector<float>{0, -4, 3, 0, 0, 0, 5, 0, 1, 1, 0, 0, 7, 8, 9}));
}

TEST_F(StudentTest, IsOfAModelInFloat) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), false, ops_);
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  EXPECT_THROW(Student(student.network(), rounded_by("int4-sym-row-a4"), false, ops), core::Error);
}

}  // namespace
}  // namespace nibble::tune
