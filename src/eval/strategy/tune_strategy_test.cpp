#include "eval/strategy/tune_strategy.h"

#include <cmath>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline.h"
#include "core/error.h"
#include "engine/text_to_text.h"
#include "eval/strategy/model_step.h"
#include "eval/strategy/part_models.h"
#include "eval/strategy/part_times.h"

namespace nibble::eval {
namespace {

using models::LayerPart;

const formats::Scheme kEight = formats::parse_scheme("int8-sym-row-a8");
const formats::Scheme kFour = formats::parse_scheme("int4-sym-row-a4");

std::shared_ptr<models::Model> family(const std::string& name) {
  return models::open_model(NIBBLE_SOURCE_DIR "/tests/families/" + name);
}

// Takes as loss what the test says of each type.
class GivenLoss final : public ModelLoss {
 public:
  GivenLoss(double eight, double four) : eight_(eight), four_(four) {}
  std::string name() const override { return "given"; }
  double of(const std::shared_ptr<const models::Model>& model) override {
    std::map<LayerPart, formats::Scheme> schemes;  // one layer of each part counts
    const auto parts = parts_by_layer(model->network);
    for (const auto& [layer, scheme] : model->compression.schemes) {
      schemes.emplace(parts.at(layer), scheme);
    }
    double loss = 0;
    for (const auto& [part, scheme] : schemes) {
      loss += scheme == kFour ? four_ : eight_;
    }
    return loss;
  }

 private:
  double eight_;
  double four_;
};

StrategyOptions options() {
  StrategyOptions options;
  options.runner.cpu.threads = 1;
  options.batch = 2;
  options.seq = 16;
  options.candidates = {kEight, kFour};
  return options;
}

std::vector<float> outputs(const std::shared_ptr<const models::Model>& model) {
  return make_model_step(model, 2, 16, options().runner)->outputs();
}

// What is put together of parts is what the recipe makes.
TEST(PartModels, AreWhatTheRecipeMakes) {
  for (const char* name : {"bert-texts", "llama", "gpt2", "opt"}) {
    const auto model = family(name);
    PartModels parts(model, 1);
    const models::PartSchemes schemes = {{LayerPart::kQkv, kEight}, {LayerPart::kMlpOut, kFour}};
    const auto made = parts.with(schemes, core::silent_progress());
    const auto expected =
        compress::quantize_in_memory(
            *model, compress::with_parts(compress::find_recipe("i8-qall"), schemes), {},
            core::silent_progress())
            .model;
    EXPECT_EQ(made->compression.schemes, expected->compression.schemes) << name;
    EXPECT_EQ(outputs(made), outputs(expected)) << name;
    EXPECT_NE(outputs(made), outputs(model)) << name;
    EXPECT_EQ(parts.with({}, core::silent_progress()), model);
  }
}

TEST(TuneStrategy, MeasuresEveryTypeInEveryPart) {
  const auto model = family("bert-texts");
  GivenLoss loss(0.001, 0.1);
  const StrategyTuning tuning = tune_strategy(model, loss, options(), core::silent_progress());
  ASSERT_EQ(tuning.options.size(), 4u);
  for (const auto& [part, of_part] : tuning.options) {
    ASSERT_EQ(of_part.size(), 3u);
    EXPECT_FALSE(of_part[0].scheme);
    EXPECT_EQ(of_part[0].loss, 0.0);
    EXPECT_EQ(of_part[1].scheme, kEight);
    EXPECT_EQ(of_part[1].loss, 0.001);
    EXPECT_EQ(of_part[2].loss, 0.1);
    for (const engine::PartOption& option : of_part) {
      EXPECT_GT(option.microseconds, 0.0);
      EXPECT_GT(option.limit_microseconds, 0.0);
    }
  }
  EXPECT_GT(tuning.original.microseconds, 0.0);
  EXPECT_LE(tuning.tried, engine::kMostTrials);
  for (const auto& [part, scheme] : tuning.chosen.schemes) {
    EXPECT_EQ(scheme, kEight) << "INT4 loses more than what is allowed";
  }
}

// Where no type is within the loss nothing is tried.
TEST(TuneStrategy, StaysFloatWhereEverythingLosesTooMuch) {
  GivenLoss loss(0.5, 0.5);
  const StrategyTuning tuning =
      tune_strategy(family("llama"), loss, options(), core::silent_progress());
  EXPECT_TRUE(tuning.chosen.schemes.empty());
  EXPECT_EQ(tuning.tried, 0);
  EXPECT_EQ(tuning.tuned.microseconds, tuning.original.microseconds);
}

// Layers of both stacks and of the attention between them are parts.
TEST(TuneStrategy, MeasuresEncoderDecoders) {
  const auto model = family("bart");
  StrategyOptions steps = options();
  steps.batch = 1;
  steps.seq = 2;
  const auto loss = output_loss(model, 1, 2, steps.runner);
  steps.max_loss = 1.0;
  const StrategyTuning tuning = tune_strategy(model, *loss, steps, core::silent_progress());
  ASSERT_EQ(tuning.options.size(), 4u);
  for (const auto& [part, of_part] : tuning.options) {
    ASSERT_EQ(of_part.size(), 3u);
    for (const engine::PartOption& option : of_part) {
      EXPECT_GT(option.microseconds, 0.0);
    }
    EXPECT_GT(of_part[1].loss, 0.0);
    EXPECT_GT(of_part[2].loss, of_part[1].loss);
  }
}

// The decoder's layers run for each token that is written, all others once.
TEST(PartTimes, CountLayersAsOftenAsTheyRun) {
  const auto uses = uses_by_layer(family("bart")->network, 8);
  const auto expect_use = [&](const std::string& layer, bool by_token, double times) {
    EXPECT_EQ(uses.at(layer).by_token, by_token) << layer;
    EXPECT_EQ(uses.at(layer).times, times) << layer;
  };
  expect_use("model.encoder.layers.1.fc1", false, 1);
  expect_use("model.decoder.layers.0.self_attn.q_proj", true, 8);
  expect_use("model.decoder.layers.2.encoder_attn.q_proj", true, 8);
  expect_use("model.decoder.layers.2.encoder_attn.out_proj", true, 8);
  expect_use("model.decoder.layers.2.fc2", true, 8);
  expect_use("model.decoder.layers.2.encoder_attn.k_proj", false, 1);
  expect_use("model.decoder.layers.2.encoder_attn.v_proj", false, 1);
  EXPECT_EQ(uses.at("model.decoder.layers.2.encoder_attn.v_proj").set,
            uses.at("model.decoder.layers.2.encoder_attn.k_proj").set);
  for (const auto& [layer, use] : uses_by_layer(family("llama")->network, 8)) {
    EXPECT_FALSE(use.by_token) << layer;
    EXPECT_EQ(use.times, 1) << layer;
  }
}

TEST(PairsLoss, IsTheRiseOfTheTargetsNats) {
  const auto model = family("bart");
  const std::vector<AnalysisText> pairs = {{{5, 9, 33}, {}, {2, 8, 21, 4}}, {{7, 7}, {}, {2, 40}}};
  const auto loss = pairs_loss(model, pairs, options().runner);
  EXPECT_EQ(loss->of(model), 0.0);
  PartModels parts(model, 1);
  const auto made = parts.with({{LayerPart::kMlpIn, kFour}}, core::silent_progress());
  const auto nats = [&](const std::shared_ptr<const models::Model>& of) {
    const auto writer = engine::make_text_to_text(of, options().runner);
    double sum = 0;
    for (const AnalysisText& pair : pairs) {
      writer->read(pair.source);
      for (std::size_t i = 1; i < pair.target.size(); ++i) {
        const auto logits = writer->next(pair.target[i - 1]);
        double whole = 0;
        for (const float logit : logits) {
          whole += std::exp(static_cast<double>(logit));
        }
        sum += std::log(whole) - logits[static_cast<std::size_t>(pair.target[i])];
      }
    }
    return sum / 4;
  };
  EXPECT_NEAR(loss->of(made), nats(made) - nats(model), 1e-5);
  EXPECT_NE(loss->of(made), 0.0);
}

TEST(TuneStrategy, RefusesModelsThatItCannotMeasure) {
  GivenLoss loss(0, 0);
  const auto refused = [&](const std::shared_ptr<const models::Model>& model) {
    EXPECT_THROW((void)tune_strategy(model, loss, options(), core::silent_progress()), core::Error);
  };
  refused(family("mixtral"));
  refused(compress::quantize_in_memory(*family("llama"), compress::find_recipe("w8a8"), {},
                                       core::silent_progress())
              .model);
}

TEST(OutputLoss, GrowsWithWhatIsRounded) {
  const auto model = family("llama");
  PartModels parts(model, 1);
  const auto loss = output_loss(model, 2, 16, options().runner);
  EXPECT_NEAR(loss->of(model), 0.0, 1e-12);
  const double eight =
      loss->of(parts.with({{LayerPart::kMlpOut, kEight}}, core::silent_progress()));
  const double four = loss->of(parts.with({{LayerPart::kMlpOut, kFour}}, core::silent_progress()));
  EXPECT_GT(eight, 0.0);
  EXPECT_LT(eight, four);
  EXPECT_LT(four, 1.0);
}

}  // namespace
}  // namespace nibble::eval
