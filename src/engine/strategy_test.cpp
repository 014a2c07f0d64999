#include "engine/strategy.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/json.h"
#include "engine/strategy_file.h"
#include "io/atomic_file.h"
#include "io/json_file.h"
#include "io/temporary_folder_for_tests.h"
#include "models/model.h"

namespace nibble::engine {
namespace {

using models::LayerPart;

PartOption option(const char* scheme, double microseconds, double loss) {
  PartOption made;
  if (*scheme != '\0') {
    made.scheme = formats::parse_scheme(scheme);
  }
  made.microseconds = microseconds;
  made.loss = loss;
  return made;
}

constexpr const char* kEight = "int8-sym-row-a8";
constexpr const char* kFour = "int4-sym-row-a4";

// Float takes 10 us in each part.
PartOptions measured() {
  PartOptions options;
  options[LayerPart::kQkv] = {option("", 10, 0), option(kEight, 6, 0.001), option(kFour, 4, 0.004)};
  options[LayerPart::kOut] = {option("", 10, 0), option(kEight, 8, -0.002), option(kFour, 7, 0.02)};
  options[LayerPart::kMlpIn] = {option("", 10, 0), option(kEight, 5, 0.002),
                                option(kFour, 4, 0.006)};
  options[LayerPart::kMlpOut] = {option("", 10, 0), option(kEight, 11, 0.0),
                                 option(kFour, 3, 0.03)};
  return options;
}

std::string best(double max_loss, const PartOptions& options = measured()) {
  return to_string(rank_strategies(options, max_loss).front().schemes);
}

TEST(RankStrategies, TheFastestWithinTheLossComesFirst) {
  EXPECT_EQ(best(0.0), "qkv=float,out=int8-sym-row-a8,mlp-in=float,mlp-out=float");
  EXPECT_EQ(best(0.003),
            "qkv=int8-sym-row-a8,out=int8-sym-row-a8,mlp-in=int8-sym-row-a8,mlp-out=float");
  EXPECT_EQ(best(0.0075),
            "qkv=int4-sym-row-a4,out=int8-sym-row-a8,mlp-in=int8-sym-row-a8,mlp-out=float");
  EXPECT_EQ(best(1.0),
            "qkv=int4-sym-row-a4,out=int4-sym-row-a4,mlp-in=int4-sym-row-a4,mlp-out=int4-sym-row-"
            "a4");
}

TEST(RankStrategies, TimesAndLossesAddUp) {
  const auto ranked = rank_strategies(measured(), 1.0);
  EXPECT_EQ(ranked.size(), 81u);
  EXPECT_DOUBLE_EQ(ranked.front().microseconds, 18.0);
  EXPECT_DOUBLE_EQ(ranked.front().loss, 0.06);
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    EXPECT_LE(ranked[i - 1].microseconds, ranked[i].microseconds);
  }
}

TEST(RankStrategies, EquallyFastTypesAreChosenByLossThenByOrder) {
  PartOptions options = measured();
  options[LayerPart::kQkv] = {option("", 6, 0), option(kEight, 5, 0.004), option(kFour, 5, 0.003)};
  EXPECT_TRUE(best(1.0, options).starts_with("qkv=int4"));
  options[LayerPart::kQkv] = {option("", 5, 0), option(kEight, 5, 0.0), option(kFour, 5, 0.0)};
  EXPECT_TRUE(best(1.0, options).starts_with("qkv=float"));
}

TEST(RankStrategies, WhatIsNotFiniteIsNotTaken) {
  PartOptions options = measured();
  options[LayerPart::kQkv][2].loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(best(1e9, options).starts_with("qkv=int8"));
}

TEST(FirstThatHolds, GoesOnUntilOneDoesAndEndsWithFloat) {
  const auto ranked = rank_strategies(measured(), 0.003);
  int asked = 0;
  const Strategy second = first_that_holds(ranked, [&](const Strategy&) { return ++asked == 2; });
  EXPECT_EQ(second.schemes, ranked[1].schemes);
  asked = 0;
  const Strategy none = first_that_holds(ranked, [&](const Strategy& strategy) {
    ++asked;
    EXPECT_FALSE(strategy.schemes.empty());
    return false;
  });
  EXPECT_TRUE(none.schemes.empty());
  EXPECT_LE(asked, kMostTrials);
  EXPECT_TRUE(first_that_holds({}, [](const Strategy&) { return true; }).schemes.empty());
}

class StrategyFiles : public ::testing::Test {
 protected:
  StrategyKey key(std::int64_t batch, std::int64_t seq, int threads = 1) const {
    RunnerOptions runner;
    runner.cpu.threads = threads;
    return strategy_key(*model_, runner, batch, seq);
  }
  void write(const StrategyFile& file) const {
    io::write_file_atomically(path_, file.to_json().dump(1));
  }

  std::shared_ptr<models::Model> model_ = models::open_model(NIBBLE_SOURCE_DIR "/models/demo");
  io::TemporaryFolder folder_;
  std::filesystem::path path_ = strategies_in(folder_.path());
  StoredStrategy stored_{
      {{LayerPart::kOut, formats::parse_scheme(kFour)}}, 80, 100, 0.004, "sst2 acc", "2026-01-31"};
};

TEST_F(StrategyFiles, GiveBackWhatWasPutForTheBucket) {
  EXPECT_THROW((void)require_strategy(path_, key(8, 128)), core::Error);
  StrategyFile file = StrategyFile::read(path_);
  file.put(key(7, 100), stored_);
  write(file);
  const StoredStrategy found = require_strategy(path_, key(8, 128));
  EXPECT_EQ(found.schemes, stored_.schemes);
  EXPECT_EQ(found.microseconds, 80);
  EXPECT_EQ(found.float_microseconds, 100);
  EXPECT_EQ(found.loss, 0.004);
  EXPECT_EQ(found.measure, "sst2 acc");
  EXPECT_EQ(found.date, "2026-01-31");
  EXPECT_THROW((void)require_strategy(path_, key(9, 128)), core::Error) << "another batch";
  EXPECT_THROW((void)require_strategy(path_, key(8, 129)), core::Error) << "another length";
  EXPECT_THROW((void)require_strategy(path_, key(8, 128, 2)), core::Error) << "other threads";
  EXPECT_THROW((void)key(0, 128), core::Error);
}

TEST_F(StrategyFiles, OtherWeightsOfTheShapeHaveTheirOwn) {
  const std::string before = key(1, 1).model;
  core::Tensor& weight = model_->network.decoder.blocks[0].attention.out.parts[0].weight.dense;
  std::vector<float> values = core::to_float32(weight);
  values[0] += 1.0f;
  weight = core::Tensor::from<float>(values, weight.shape());
  EXPECT_NE(key(1, 1).model, before);
}

TEST_F(StrategyFiles, MalformedOnesAreRefused) {
  StrategyFile file;
  file.put(key(1, 1), stored_);
  const core::Json whole = file.to_json();
  const auto refused = [&](const core::Json& json) {
    io::write_file_atomically(path_, json.dump());
    EXPECT_THROW((void)StrategyFile::read(path_), core::Error) << json.dump();
  };
  for (const char* member : {"model", "device", "batch", "seq", "parts", "microseconds", "loss"}) {
    core::Json json = whole;
    json["strategies"][0].erase(member);
    refused(json);
  }
  core::Json json = whole;
  json["strategies"][0]["parts"]["qkv"] = "int5";
  refused(json);
  json = whole;
  json["strategies"][0]["parts"].erase("qkv");
  refused(json);
  refused(core::Json::array());
  refused({{"nibble_strategies", 2}, {"strategies", core::Json::array()}});
}

}  // namespace
}  // namespace nibble::engine
