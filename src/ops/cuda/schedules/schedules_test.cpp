#include "ops/cuda/schedules/schedules.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using core::Json;

const ScheduleOrigin kHere = {"NVIDIA H200", 132, 13};

LinearShape shape(std::int64_t n, std::int64_t k) {
  return {{CodeKind::kInt4, ScaleKind::kF16, 1}, false, GemmInputs::kHalf, 0, n, k};
}

Schedules example() {
  Schedules schedules(kHere);
  LinearSchedules layer;
  layer.shape = shape(4096, 11008);
  layer.few = SmallBatchSchedule{8, 3, 128};
  layer.few_microseconds = {{1, 4.25}, {8, 5.5}};
  layer.medium = {{32, {2, 1, 132}, 7.5}, {64, {1, 2, 130}, 9.25}};
  layer.many = {{32, std::nullopt, 12.0}, {64, GemmPlan{true, 128, 64, 2}, 21.125}};
  layer.many[1].plan->blocks = 132;
  layer.date = "2026-01-31";
  schedules.add(layer);
  LinearSchedules other;
  other.shape = {
      {CodeKind::kBook, ScaleKind::kBf16, 8}, true, GemmInputs::kInt8ScaledByGroup, 64, 96, 128};
  schedules.add(other);
  return schedules;
}

// What reading `json` says: the kind of its error, and the text.
std::pair<ErrorKind, std::string> refusal(const Json& json) {
  try {
    Schedules::from_json(json, "file.json");
  } catch (const core::Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::kFailed, "was read"};
}

TEST(Schedules, AFileSaysWhatWasWritten) {
  const Json json = example().to_json();
  const Schedules read = Schedules::from_json(core::parse_json(json.dump(), "text"), "text");
  EXPECT_EQ(read.to_json(), json);
  EXPECT_EQ(read.origin(), kHere);
  ASSERT_EQ(read.layers().size(), 2u);
  const LinearSchedules* layer = read.find(shape(4096, 11008));
  ASSERT_NE(layer, nullptr);
  EXPECT_EQ(layer->few->warps, 8);
  EXPECT_EQ(layer->few->stages, 3);
  EXPECT_EQ(layer->few->blocks, 128);
  ASSERT_EQ(layer->medium.size(), 2u);
  EXPECT_EQ(layer->medium[1].columns, 64);
  EXPECT_EQ(layer->medium[1].microseconds, 9.25);
  EXPECT_EQ(to_string(layer->medium[1].schedule),
            "medium batch, row_groups 1, cluster 2, blocks 130");
  ASSERT_EQ(layer->many.size(), 2u);
  EXPECT_FALSE(layer->many[0].plan.has_value());
  EXPECT_EQ(layer->many[1].tokens, 64);
  EXPECT_EQ(layer->many[1].microseconds, 21.125);
  EXPECT_EQ(to_string(*layer->many[1].plan),
            "wgmma, row_tile 128, token_tile 64, cluster 2, blocks 132");
  EXPECT_EQ(layer->date, "2026-01-31");
  EXPECT_EQ(read.layers()[1].date, "");
  EXPECT_EQ(read.layers()[1].shape, example().layers()[1].shape);
  EXPECT_EQ(read.find(shape(4096, 4096)), nullptr);
}

TEST(Schedules, EveryFieldIsChecked) {
  struct Fault {
    const char* at;    // JSON pointer
    const char* with;  // null: taken away
    const char* says;
  };
  const Fault faults[] = {
      {"/nibble_schedules", "2", "nibble_schedules"},
      {"/nibble_schedules", nullptr, "nibble_schedules"},
      {"/gpu", "7", "gpu"},
      {"/multiprocessors", "0", "multiprocessors"},
      {"/driver", "\"13\"", "driver"},
      {"/kernels", nullptr, "kernels"},
      {"/layers", nullptr, "layers"},
      {"/layers", "{}", "layers"},
      {"/layers/0", "3", "layers[0]"},
      {"/layers/0/codes", "\"int5\"", "codes"},
      {"/layers/0/scales", "\"f32\"", "scales"},
      {"/layers/0/scales", "16", "scales"},
      {"/layers/0/groups", "2", "groups"},
      {"/layers/0/row_scale", "1", "row_scale"},
      {"/layers/0/row_scale", nullptr, "row_scale"},
      {"/layers/0/inputs", "\"float\"", "inputs"},
      {"/layers/0/tail", "-1", "tail"},
      {"/layers/0/n", "0", "n"},
      {"/layers/0/k", "1e300", "k"},
      {"/layers/0/few_tokens", "[]", "few_tokens"},
      {"/layers/0/few_tokens/warps", "13", "warps"},
      {"/layers/0/few_tokens/stages", "1", "stages"},
      {"/layers/0/few_tokens/stages", "9", "stages"},
      {"/layers/0/few_tokens/blocks", "257", "blocks"},
      {"/layers/0/few_tokens/measured/1/tokens", "3", "tokens"},
      {"/layers/0/few_tokens/measured/1/tokens", "32", "16 are few"},
      {"/layers/0/few_tokens/measured/0/microseconds", "0", "microseconds"},
      {"/layers/0/medium", "3", "medium"},
      {"/layers/0/medium/0/columns", "16", "no choice"},
      {"/layers/0/medium/0/columns", "64", "twice"},
      {"/layers/0/medium/0/columns", nullptr, "columns"},
      {"/layers/0/medium/0/schedule", nullptr, "schedule"},
      {"/layers/0/medium/0/schedule", "[]", "row_groups"},
      {"/layers/0/medium/1/schedule/row_groups", "0", "row_groups"},
      {"/layers/0/medium/1/schedule/cluster", "true", "cluster"},
      {"/layers/0/medium/1/schedule/blocks", nullptr, "blocks"},
      {"/layers/0/medium/1/microseconds", "null", "microseconds"},
      {"/layers/1/medium/0", "{\"columns\": 32}", "no choice"},
      {"/layers/0/many_tokens", "7", "many_tokens"},
      {"/layers/0/many_tokens/0", "null", "many_tokens[0]"},
      {"/layers/0/many_tokens/0/tokens", "16", "no choice"},
      {"/layers/0/many_tokens/0/tokens", "33", "tokens"},
      {"/layers/0/many_tokens/0/tokens", "64", "twice"},
      {"/layers/0/many_tokens/0/microseconds", "-1", "microseconds"},
      {"/layers/0/many_tokens/0/few_tokens", "false", "either"},
      {"/layers/0/many_tokens/0/few_tokens", "1", "few_tokens"},
      {"/layers/0/many_tokens/1/few_tokens", "true", "either"},
      {"/layers/0/many_tokens/1/plan", "8", "wgmma"},
      {"/layers/0/many_tokens/1/plan/wgmma", "1", "wgmma"},
      {"/layers/0/many_tokens/1/plan/row_tile", nullptr, "row_tile"},
      {"/layers/0/many_tokens/1/plan/token_tile", "0", "token_tile"},
      {"/layers/0/many_tokens/1/plan/cluster", "1.5", "cluster"},
      {"/layers/0/many_tokens/1/plan/blocks", "4294967296", "blocks"},
      {"/layers/1/scales", "7", "layers[1]"},
      {"/layers/1/many_tokens/0", "{\"tokens\": 64, \"few_tokens\": true, \"microseconds\": 1}",
       "no choice"},
  };
  for (const Fault& fault : faults) {
    Json json = example().to_json();
    const Json::json_pointer at(fault.at);
    if (fault.with == nullptr) {
      json.at(at.parent_pointer()).erase(at.back());
    } else {
      json[at] = Json::parse(fault.with);
    }
    const auto [kind, text] = refusal(json);
    EXPECT_EQ(kind, ErrorKind::kInvalidModel) << fault.at << ": " << text;
    EXPECT_EQ(text.find("file.json"), 0u) << text;
    EXPECT_NE(text.find(fault.says), std::string::npos) << fault.at << ": " << text;
  }
  Json twice = example().to_json();
  twice["layers"].push_back(twice["layers"][0]);
  EXPECT_NE(refusal(twice).second.find("layers[2]: stands twice"), std::string::npos);
  EXPECT_EQ(refusal(Json::array()).first, ErrorKind::kInvalidModel);
}

TEST(Schedules, ServeOnlyWhereTheyWereMeasured) {
  EXPECT_NO_THROW(require_origin(example(), kHere, "file.json"));
  ScheduleOrigin others[] = {kHere, kHere, kHere, kHere};
  others[0].gpu = "NVIDIA H100";
  others[1].multiprocessors = 114;
  others[2].driver = 12;
  others[3].kernels = kKernelsVersion + 1;
  for (const ScheduleOrigin& other : others) {
    try {
      require_origin(example(), other, "file.json");
      ADD_FAILURE() << "was taken";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("tune-kernels"), std::string::npos);
    }
  }
}

TEST(Schedules, LayersOfOtherKernelsAreNotRead) {
  Json json = example().to_json();
  json["kernels"] = kKernelsVersion + 1;
  json["layers"][0]["many_tokens"][1]["plan"] = {{"depth", 3}};
  const Schedules read = Schedules::from_json(json, "file.json");
  EXPECT_TRUE(read.layers().empty());
  EXPECT_THROW(require_origin(read, kHere, "file.json"), core::Error);
}

TEST(Schedules, MustBeThoseOfAKernel) {
  std::vector<GemmPlan> plans = {{.token_tile = 32}, *example().layers()[0].many[1].plan};
  std::vector<MediumBatchSchedule> medium = {{1, 2, 130}, {2, 1, 132}};
  const KernelLists lists{[&](const LinearShape& of) {
                            EXPECT_EQ(of.format.groups, of.inputs == GemmInputs::kHalf ? 1 : 8);
                            return plans;
                          },
                          [&](const LinearShape& of) {
                            EXPECT_EQ(of, shape(4096, 11008));
                            return medium;
                          }};
  const auto refused = [&] {
    try {
      require_kernels(example(), lists, "file.json");
      return std::string();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refused(), "");
  plans[1].cluster = 1;
  EXPECT_NE(refused().find("64 tokens: there is no kernel for 'wgmma"), std::string::npos);
  plans[1].cluster = 2;
  medium[1].row_groups = 4;
  EXPECT_NE(refused().find("16 tokens: there is no kernel for 'medium batch, row_groups 2"),
            std::string::npos);
  medium.clear();  // another device
  EXPECT_NE(refused(), "");
}

TEST(Schedules, NumbersOfTokensBelongToTheNextBucket) {
  for (const auto& [m, tokens] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {2, 2}, {3, 4}, {16, 16}, {17, 32}, {1025, 2048}, {2048, 2048}, {9000, 2048}}) {
    EXPECT_EQ(kTokenBuckets[bucket_of(m)], tokens) << m;
  }
}

TEST(Schedules, AChoiceServesNumbersThatMakeAsManyPieces) {
  const ManyTokens plan{256, GemmPlan{.token_tile = 64}, 1.0};
  EXPECT_TRUE(plan.serves(193, 16));
  EXPECT_FALSE(plan.serves(192, 16));
  EXPECT_TRUE(plan.serves(9000, 16));  // of the last bucket
  const ManyTokens launches{32, std::nullopt, 1.0};
  EXPECT_TRUE(launches.serves(25, 8));
  EXPECT_FALSE(launches.serves(24, 8));
}

TEST(Schedules, ColumnsBelongToTheNextMeasuredOnes) {
  for (const auto& [columns, measured] :
       std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {17, 32}, {32, 32}, {34, 64}, {64, 64}, {66, 128}, {128, 128}}) {
    EXPECT_EQ(kMediumColumns[medium_index(columns)], measured) << columns;
  }
}

TEST(Schedules, MeasuringAgainKeepsWhatWasNotMeasured) {
  Schedules schedules = example();
  LinearSchedules again;
  again.shape = shape(4096, 11008);
  again.medium = {{64, {4, 1, 132}, 8.0}};
  again.many = {{64, std::nullopt, 9.0}, {128, GemmPlan{.blocks = 1}, 30.0}};
  schedules.add(again);
  EXPECT_EQ(schedules.layers().size(), 2u);
  const LinearSchedules& layer = *schedules.find(again.shape);
  EXPECT_EQ(layer.few->warps, 8);
  ASSERT_EQ(layer.medium.size(), 2u);
  EXPECT_EQ(layer.medium[0].schedule.row_groups, 2);
  EXPECT_EQ(layer.medium[1].schedule.row_groups, 4);
  ASSERT_EQ(layer.many.size(), 3u);
  EXPECT_EQ(layer.many[0].tokens, 32);
  EXPECT_EQ(layer.many[1].microseconds, 9.0);
  EXPECT_EQ(layer.many[2].tokens, 128);
  again.few = SmallBatchSchedule{12, 2, 64};
  again.few_microseconds = {{4, 1.0}};
  schedules.add(again);
  EXPECT_EQ(schedules.find(again.shape)->few->blocks, 64);
  EXPECT_EQ(schedules.find(again.shape)->few_microseconds.size(), 1u);
}

TEST(LinearShape, FollowsTheScheme) {
  const auto of = [](const char* scheme) {
    return linear_shape(formats::parse_scheme(scheme), 256, 1024);
  };
  EXPECT_EQ(to_string(of("int4-sym-g128")), "int4 g128, 16-bit inputs, 256 x 1024");
  EXPECT_EQ(to_string(of("int8-sym-row-a8")), "int8 row, 8-bit inputs, 256 x 1024");
  EXPECT_EQ(to_string(of("int4-sym-g128-a4g128-tail64")),
            "int4 g128, 8-bit inputs by group, 256 x 960 + 64");
  EXPECT_EQ(of("int4-asym-g32").format.groups, 4);
  EXPECT_EQ(of("int4-asym-g32").digits(), 2);
  EXPECT_EQ(of("int8-sym-row-a8").digits(), 1);
}

TEST(LinearShape, KnowsWhatAreMediumBatches) {
  const auto is_medium = [](const char* scheme, std::int64_t m) {
    return linear_shape(formats::parse_scheme(scheme), 256, 1024).is_medium(m);
  };
  const LinearShape large = linear_shape(formats::parse_scheme("int4-sym-g128"), 28672, 1024);
  EXPECT_TRUE(large.is_medium(32));
  EXPECT_FALSE(large.is_medium(33));
  EXPECT_FALSE(is_medium("int4-sym-g128", 8));
  EXPECT_TRUE(is_medium("int4-sym-g128", 9));
  EXPECT_TRUE(is_medium("int4-sym-g128", 64));
  EXPECT_FALSE(is_medium("int4-sym-g128", 65));
  EXPECT_FALSE(is_medium("int8-sym-row-a8", 16));
  EXPECT_TRUE(is_medium("int8-sym-row-a8", 17));
  EXPECT_FALSE(is_medium("int8-sym-row-a8", 33));
  EXPECT_FALSE(is_medium("int4-sym-g128-a4g128-tail64", 24));
}

TEST(PlannedProduct, IsThatOfTheShape) {
  const auto has = [](const char* scheme) {
    return planned_product(linear_shape(formats::parse_scheme(scheme), 256, 1024)) != nullptr;
  };
  for (const char* scheme : {"int4-sym-g128", "int4-asym-g32", "int8-sym-row-a8", "lut4-nf4-g64",
                             "int4-sym-g128-a4g128-tail64", "fp8-row", "fp8-tensor-afp8",
                             "int4-sym-g16", "int4-min-g32-s8", "nvfp4"}) {
    EXPECT_TRUE(has(scheme)) << scheme;
  }
  for (const char* scheme : {"mxfp4", "int4-sym-g32-a8", "int8-asym-row-a8",
                             "int4-sym-g128-a4g128-tail256", "int8-sym-g128-a8g128"}) {
    EXPECT_FALSE(has(scheme)) << scheme;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
