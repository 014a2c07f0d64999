#include "tune/qat/student.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "core/error.h"
#include "engine/encoder.h"
#include "engine/text_to_text.h"
#include "formats/format.h"
#include "tune/qat/distillation.h"
#include "tune/qat/encoder_for_tests.h"

// A student, its pass, and the gradient of its loss.
namespace nibble::tune {
namespace {

using ops::cpu::CpuOps;

constexpr LossWeights kAllTerms = {0.7, 1.1, 0.9, 1.3, 0.4};

struct Kind {
  const char* name;
  std::shared_ptr<models::Model> (*open)();
  std::vector<LabelledText> (*texts)(std::size_t count, std::uint64_t seed);
};

class StudentTest : public testing::TestWithParam<Kind> {
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
  std::shared_ptr<models::Model> model_ = GetParam().open();
  std::vector<LabelledText> texts_ = GetParam().texts(6, 4);
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

// Batches of a step add up to what one batch of all their texts gives, but for rounding.
TEST_P(StudentTest, BatchesAddUpToTheStep) {
  Student student(model_->network, rounded_by("int4-sym-row"), {}, ops_);
  const LossTerms whole = step(student, model_->network, kAllTerms);
  const double largest = size_of(student.parameters());
  std::vector<std::vector<float>> gradients;
  for (const auto& parameter : student.parameters()) {
    gradients.push_back(parameter->gradient);
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), 0.0f);
  }
  const auto all = all_of(texts_);
  const std::vector<std::vector<const LabelledText*>> batches = {
      {all[0]}, {all[1], all[2], all[3]}, {all[4], all[5]}};
  const auto shares = shares_of(batches);
  Distillation distillation(model_->network, teacher_ops_, student.network(), ops_, kAllTerms);
  LossTerms sum;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    sum.add(distillation.step(batches[i], student.gradients(), shares[i]));
  }
  EXPECT_NEAR(sum.labels, whole.labels, 1e-6 * whole.labels);
  EXPECT_NEAR(sum.logits, whole.logits, 1e-6 * whole.logits);
  EXPECT_NEAR(sum.hidden, whole.hidden, 1e-6 * whole.hidden);
  EXPECT_NEAR(sum.attention, whole.attention, 1e-6 * whole.attention);
  EXPECT_NEAR(sum.scores, whole.scores, 1e-6 * whole.scores);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const Parameter& parameter = *student.parameters()[p];
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < gradients[p].size(); ++i) {
      difference += std::pow(parameter.gradient[i] - gradients[p][i], 2.0);
      size += std::pow(gradients[p][i], 2.0);
    }
    EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(size) + 1e-7 * largest) << parameter.name;
  }
}

TEST_P(StudentTest, InFloatIsTheTeacher) {
  Student student(model_->network, rounded_by("f32"), {}, ops_);
  const LossTerms terms = step(student, model_->network, {0, 1, 1, 1, 1});
  EXPECT_EQ(terms.logits, 0.0);
  EXPECT_EQ(terms.hidden, 0.0);
  EXPECT_EQ(terms.attention, 0.0);
  EXPECT_EQ(terms.scores, 0.0);
  EXPECT_EQ(size_of(student.parameters()), 0.0);
}

TEST_P(StudentTest, RoundedIsNotTheTeacher) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), {}, ops_);
  const LossTerms terms = step(student, model_->network, {0, 1, 1, 1, 1});
  EXPECT_GT(terms.logits, 1e-6);
  EXPECT_GT(terms.hidden, 1e-4);
  EXPECT_GT(terms.attention, 1e-6);
  EXPECT_GT(terms.scores, 1e-6);
  EXPECT_GT(size_of(student.parameters()), 1e-3);
}

// Every parameter's gradient against differences of the loss, all terms together, in float. A
// direction for each parameter.
TEST_P(StudentTest, HasTheGradientOfItsLoss) {
  Student student(model_->network, rounded_by("f32"), {}, ops_);
  move(student, 0.05f);
  step(student, model_->network, kAllTerms);
  std::vector<std::vector<float>> gradients;
  for (const auto& parameter : student.parameters()) {
    gradients.push_back(parameter->gradient);
  }
  const double largest = size_of(student.parameters());
  std::size_t checked = 0;
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
  EXPECT_GT(2 * checked, student.parameters().size());
}

// Logits of all tokens of a window but the last.
engine::EncoderRows logits_of_window(const std::shared_ptr<models::Model>& model,
                                     const LabelledText& window) {
  engine::RunnerOptions options;
  options.kv_types = {ops::KvType::kF32, ops::KvType::kF32};
  std::vector<std::int32_t> tokens = window.tokens;
  tokens.insert(tokens.end(), window.written.begin(), window.written.end() - 1);
  engine::EncoderRows rows;
  engine::make_runner(model, options)
      ->score(tokens, [&](std::int64_t, const engine::LogitsView& logits) {
        rows.rows += logits.rows;
        rows.columns = logits.vocabulary;
        rows.values.insert(rows.values.end(), logits.values.begin(), logits.values.end());
      });
  return rows;
}

// Logits of a model as it runs, and the answers to them.
engine::EncoderRows logits_of(const std::shared_ptr<models::Model>& model, const LabelledText& text,
                              std::vector<std::int32_t>& answers) {
  if (!model->network.has_encoder()) {
    answers = text.written;
    return logits_of_window(model, text);
  }
  if (model->network.has_decoder()) {
    answers = text.written;
    return engine::make_text_to_text(model, {})->score(text.tokens, text.written);
  }
  answers = {text.label.output};
  const std::vector<engine::EncoderText> texts = {{text.tokens, text.types}};
  return engine::make_encoder(model, {})->classify(texts);
}

// Their cross-entropy.
double label_loss(const std::shared_ptr<models::Model>& model,
                  const std::vector<LabelledText>& texts) {
  double loss = 0;
  std::size_t count = 0;
  for (const LabelledText& text : texts) {
    std::vector<std::int32_t> answers;
    const engine::EncoderRows logits = logits_of(model, text, answers);
    for (std::size_t i = 0; i < answers.size(); ++i, ++count) {
      const auto row = logits.row(static_cast<std::int64_t>(i));
      double sum = 0;
      for (const float x : row) {
        sum += std::exp(static_cast<double>(x));
      }
      loss += std::log(sum) - static_cast<double>(row[static_cast<std::size_t>(answers[i])]);
    }
  }
  return loss / static_cast<double>(count);
}

// The pass that is trained is the one that runs: the same bits.
TEST_P(StudentTest, IsThePackedModel) {
  for (const char* scheme :
       {"int4-sym-row-a4", "int4-asym-row-a4-asym", "int4-sym-g12-a8", "int8-sym-row-a8"}) {
    Student student(model_->network, rounded_by(scheme), {}, ops_);
    move(student, 0.02f);
    auto model = std::make_shared<models::Model>(*model_);
    model->network = student.network();
    EXPECT_NEAR(step(student, model_->network, {.labels = 1}).labels, label_loss(model, texts_),
                1e-12)
        << scheme;
  }
}

TEST_P(StudentTest, IsStoredAsItRuns) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), {}, ops_);
  move(student, 0.02f);
  const auto blocks = student.compressed();
  ASSERT_EQ(blocks.size(), models::all_blocks(model_->network).size());
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

// Rows of the layers that are rounded, and their scores, by name.
void for_each_row(const Student& student,
                  const std::function<void(const ops::Linear&, std::span<const float>)>& look) {
  for (const models::Block* block : models::all_blocks(student.network())) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      for (const ops::Linear& layer : set->parts) {
        std::vector<float> row(static_cast<std::size_t>(layer.weight.k));
        for (std::int64_t n = 0; n < layer.weight.n; ++n) {
          formats::decode_row(layer.weight, n, row);
          look(layer, row);
        }
      }
    }
  }
}

TEST_P(StudentTest, PrunesInTheOrderThatIsAskedFor) {
  for (const bool after : {false, true}) {
    Pruning pruning = parse_pruning("1:4");
    pruning.after_rounding = after;
    Student student(model_->network, rounded_by("int4-sym-row-a4"), pruning, ops_);
    const Student whole(model_->network, rounded_by("int4-sym-row-a4"), {}, ops_);
    std::vector<std::vector<float>> dense;
    for_each_row(whole, [&](const ops::Linear&, std::span<const float> row) {
      dense.emplace_back(row.begin(), row.end());
    });
    std::size_t at = 0;
    std::size_t kept = 0;
    for_each_row(student, [&](const ops::Linear& layer, std::span<const float> row) {
      for (std::size_t i = 0; i + 4 <= row.size(); i += 4) {
        const auto four = row.subspan(i, 4);
        EXPECT_GE(std::count(four.begin(), four.end(), 0.0f), 3) << layer.name;
        for (std::size_t j = i; j < i + 4; ++j) {
          kept += row[j] != 0.0f ? 1 : 0;
          if (after && row[j] != 0.0f) {
            EXPECT_EQ(row[j], dense[at][j]) << "the grid is that of all weights";
          }
        }
      }
      ++at;
    });
    EXPECT_GT(kept, 100U);
    EXPECT_GT(
        size_of(student.parameters()) + step(student, model_->network, {0, 1, 1}).total({0, 1, 1}),
        0.0);
  }
}

TEST_P(StudentTest, ScoresLearnWhereWeightsMove) {
  Pruning pruning = parse_pruning("2:4");
  pruning.by_movement = true;
  Student student(model_->network, rounded_by("int4-sym-row-a4"), pruning, ops_);
  step(student, model_->network, {.labels = 1});
  std::map<std::string, std::vector<float>> before;
  for (const auto& parameter : student.parameters()) {
    before[parameter->name] = parameter->gradient;
  }
  student.share_gradients();
  std::map<std::string, std::size_t> inputs;
  for_each_row(student, [&](const ops::Linear& layer, std::span<const float> row) {
    inputs[layer.name] = row.size();
  });
  std::size_t moving = 0;
  for (const auto& parameter : student.parameters()) {
    const std::string& name = parameter->name;
    if (!name.ends_with(".scores")) {
      continue;
    }
    const std::string layer = name.substr(0, name.rfind('.'));
    const auto& weight =
        *std::find_if(student.parameters().begin(), student.parameters().end(),
                      [&](const auto& each) { return each->name == layer + ".weight"; });
    const std::size_t k = inputs.at(layer);
    for (std::size_t i = 0; i < parameter->values.size(); ++i) {
      const float gradient = before.at(weight->name)[i];
      EXPECT_EQ(parameter->gradient[i], gradient * weight->values[i]) << name;
      EXPECT_TRUE(weight->gradient[i] == gradient || weight->gradient[i] == 0.0f) << name;
      moving += weight->gradient[i] != 0.0f ? 1 : 0;
    }
    for (std::size_t row = 0; row < weight->gradient.size(); row += k) {
      for (std::size_t i = row; i + 4 <= row + k; i += 4) {
        const auto four = std::span(weight->gradient).subspan(i, 4);
        EXPECT_GE(std::count(four.begin(), four.end(), 0.0f), 2) << "what is pruned stays";
      }
    }
    // The highest scores stay, whatever the magnitudes.
    for (std::size_t i = 0; i < parameter->values.size(); ++i) {
      parameter->values[i] = i % k % 4 < 2 ? 0.0f : 1.0f;
    }
  }
  EXPECT_GT(moving, 100U);
  student.round();
  for_each_row(student, [&](const ops::Linear& layer, std::span<const float> row) {
    for (std::size_t i = 0; i + 4 <= row.size(); i += 4) {
      EXPECT_EQ(row[i], 0.0f) << layer.name;
      EXPECT_EQ(row[i + 1], 0.0f) << layer.name;
    }
  });
}

TEST_P(StudentTest, IsOfAModelInFloat) {
  Student student(model_->network, rounded_by("int4-sym-row-a4"), {}, ops_);
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  EXPECT_THROW(Student(student.network(), rounded_by("int4-sym-row-a4"), {}, ops), core::Error);
}

// Queries to the encoder in the last layer of the decoder: no state and no other attention sees
// them before that layer's end.
TEST(EncoderDecoderStudent, IsComparedInItsAttentionToTheEncoder) {
  const auto model = small_encoder_decoder();
  const auto texts = random_pairs(6, 4);
  CpuOps teacher_ops({1, ops::ActivationPrecision::kFloat});
  CpuOps ops({1, ops::ActivationPrecision::kFloat});
  Student student(model->network, rounded_by("f32"), {}, ops);
  for (const auto& parameter : student.parameters()) {
    if (parameter->name == "model.decoder.layers.2.encoder_attn.q_proj.weight") {
      std::for_each(parameter->values.begin(), parameter->values.end(),
                    [](float& value) { value *= 2; });
    }
  }
  student.round();
  Distillation distillation(model->network, teacher_ops, student.network(), ops, {0, 0, 0, 1, 1});
  const LossTerms terms = distillation.step(all_of(texts), student.gradients());
  EXPECT_GT(terms.attention, 1e-7);
  EXPECT_GT(terms.scores, 1e-7);
}

INSTANTIATE_TEST_SUITE_P(
    Models, StudentTest,
    testing::Values(Kind{"Encoder", small_encoder, random_texts},
                    Kind{"EncoderDecoder", small_encoder_decoder, random_pairs},
                    Kind{"PreNormEncoderDecoder", small_pre_norm_encoder_decoder, random_pairs},
                    Kind{"Llama", small_decoder, random_windows},
                    Kind{"Gpt2", small_gpt2, random_windows},
                    Kind{"PostNormDecoder", small_post_norm_decoder, random_windows}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace nibble::tune
