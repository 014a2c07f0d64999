#include "eval/strategy/tune_strategy.h"

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline.h"
#include "core/error.h"
#include "eval/strategy/model_step.h"
#include "eval/strategy/part_models.h"

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

TEST(TuneStrategy, RefusesModelsThatItCannotMeasure) {
  GivenLoss loss(0, 0);
  const auto refused = [&](const std::shared_ptr<const models::Model>& model) {
    EXPECT_THROW((void)tune_strategy(model, loss, options(), core::silent_progress()), core::Error);
  };
  refused(family("mixtral"));
  refused(family("bart"));
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
