#include "ops/cuda/schedules/choose_schedules.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "ops/cuda/schedules/schedule_fields.h"

namespace nibble::ops::cuda {
namespace {

const LinearShape kShape = {{CodeKind::kInt4, ScaleKind::kF16, 1},
                            false,
                            GemmInputs::kHalf,
                            0,
                            4096,
                            4096};  // 16 tokens are few
const auto kNoMedium = [](std::int64_t, const MediumBatchSchedule&) {
  ADD_FAILURE() << "there is no such kernel";
  return 1.0;
};
constexpr SmallBatchSchedule kBuiltIn = {12, 2, 132};
constexpr GemmPlan kBuiltInPlan = {.wgmma = true, .token_tile = 64, .blocks = 132};
constexpr GemmPlan kNarrow = {.wgmma = true, .token_tile = 32, .blocks = 132};
constexpr GemmPlan kOfWarps = {.wgmma = false, .blocks = 132};

LinearCandidates candidates() {
  return {kBuiltIn,
          {kBuiltIn, {8, 2, 132}, {8, 2, 128}},
          {},
          [](std::int64_t) { return kBuiltInPlan; },
          {kBuiltInPlan, kNarrow, kOfWarps}};
}

TEST(ChooseSchedules, OneScheduleServesAllFewTokens) {
  // 8/132 is the fastest with one token by far, 8/128 nearly as fast there and faster with eight.
  const LinearTimer timer{[](std::int64_t m, const SmallBatchSchedule& schedule) {
                            if (schedule.warps == 12) {
                              return 10e-6;
                            }
                            return schedule.blocks == 132 ? (m == 1 ? 5e-6 : 12e-6)
                                                          : (m == 1 ? 6e-6 : 8e-6);
                          },
                          kNoMedium, [](std::int64_t, const GemmPlan&) { return 1.0; }};
  const std::int64_t tokens[] = {1, 8};
  const ChosenSchedules chosen = choose_schedules(kShape, tokens, candidates(), timer);
  ASSERT_TRUE(chosen.schedules.few.has_value());
  EXPECT_EQ(chosen.schedules.few->warps, 8);
  EXPECT_EQ(chosen.schedules.few->blocks, 128);
  ASSERT_EQ(chosen.schedules.few_microseconds.size(), 2u);
  EXPECT_NEAR(chosen.schedules.few_microseconds[1].second, 8.0, 1e-9);
  ASSERT_EQ(chosen.choices.size(), 2u);
  EXPECT_EQ(chosen.choices[0].seconds, 6e-6);
  EXPECT_EQ(chosen.choices[0].built_in_seconds, 10e-6);
  EXPECT_TRUE(chosen.schedules.many.empty());
}

TEST(ChooseSchedules, NoiseLeavesTheBuiltInChoice) {
  const LinearTimer timer{
      [](std::int64_t, const SmallBatchSchedule& schedule) {
        return schedule.warps == 12 ? 10.1e-6 : 10e-6;
      },
      kNoMedium,
      [](std::int64_t, const GemmPlan& plan) { return plan.token_tile == 64 ? 10.1e-6 : 10e-6; }};
  const std::int64_t tokens[] = {4, 128};
  const ChosenSchedules chosen = choose_schedules(kShape, tokens, candidates(), timer);
  EXPECT_EQ(chosen.schedules.few->warps, 12);
  ASSERT_EQ(chosen.schedules.many.size(), 1u);
  EXPECT_EQ(chosen.schedules.many[0].plan->token_tile, 64);
  EXPECT_EQ(chosen.choices[1].chosen, chosen.choices[1].built_in);
}

TEST(ChooseSchedules, PlansKeepTheInstructionsOfTheBuiltInOne) {
  const LinearTimer timer{[](std::int64_t, const SmallBatchSchedule&) { return 1.0; }, kNoMedium,
                          [](std::int64_t m, const GemmPlan& plan) {
                            EXPECT_TRUE(plan.wgmma);
                            return (plan.token_tile == 32) == (m == 64) ? 8e-6 : 10e-6;
                          }};
  const std::int64_t tokens[] = {64, 128};
  const ChosenSchedules chosen = choose_schedules(kShape, tokens, candidates(), timer);
  EXPECT_FALSE(chosen.schedules.few.has_value());
  ASSERT_EQ(chosen.schedules.many.size(), 2u);
  EXPECT_EQ(chosen.schedules.many[0].plan->token_tile, 32);
  EXPECT_EQ(chosen.schedules.many[1].plan->token_tile, 64);
}

TEST(ChooseSchedules, AFewLaunchesForFewTokensMayServeMore) {
  const LinearTimer timer{[](std::int64_t m, const SmallBatchSchedule&) {
                            EXPECT_LE(m, 64);
                            return static_cast<double>(m) * 0.2e-6;
                          },
                          kNoMedium, [](std::int64_t, const GemmPlan&) { return 10e-6; }};
  const std::int64_t tokens[] = {16, 32, 64, 128};
  const ChosenSchedules chosen = choose_schedules(kShape, tokens, candidates(), timer);
  ASSERT_EQ(chosen.schedules.many.size(), 3u);
  EXPECT_FALSE(chosen.schedules.many[0].plan.has_value());
  EXPECT_TRUE(chosen.schedules.many[1].plan.has_value());
  EXPECT_TRUE(chosen.schedules.many[2].plan.has_value());
}

TEST(ChooseSchedules, MediumBatchesHaveTheirOwn) {
  LinearCandidates with_medium = candidates();
  with_medium.medium = {{1, 2, 132}, {2, 1, 132}, {4, 1, 132}};
  const LinearTimer timer{[](std::int64_t m, const SmallBatchSchedule&) {
                            EXPECT_TRUE(m == 8 || m == 128) << m;
                            return 10e-6;
                          },
                          [](std::int64_t m, const MediumBatchSchedule& schedule) {
                            EXPECT_TRUE(m == 16 || m == 32) << m;
                            return schedule.row_groups == (m == 16 ? 2 : 4) ? 8e-6 : 9e-6;
                          },
                          [](std::int64_t m, const GemmPlan&) {
                            EXPECT_EQ(m, 128);
                            return 10e-6;
                          }};
  const std::int64_t tokens[] = {8, 16, 32, 128};
  const ChosenSchedules chosen = choose_schedules(kShape, tokens, with_medium, timer);
  EXPECT_EQ(chosen.schedules.few_microseconds.size(), 1u);
  ASSERT_EQ(chosen.schedules.medium.size(), 2u);
  EXPECT_EQ(chosen.schedules.medium[0].columns, 32);
  EXPECT_EQ(chosen.schedules.medium[0].schedule.row_groups, 2);
  EXPECT_EQ(chosen.schedules.medium[1].columns, 64);
  EXPECT_EQ(chosen.schedules.medium[1].schedule.row_groups, 4);
  EXPECT_NEAR(chosen.schedules.medium[1].microseconds, 8.0, 1e-9);
  EXPECT_EQ(chosen.schedules.many.size(), 1u);
  ASSERT_EQ(chosen.choices.size(), 4u);
  EXPECT_EQ(chosen.choices[1].tokens, 16);
  EXPECT_EQ(chosen.choices[1].chosen, "medium batch, row_groups 2, cluster 1, blocks 132");
  EXPECT_EQ(chosen.choices[1].built_in, "medium batch, row_groups 1, cluster 2, blocks 132");
  EXPECT_EQ(chosen.choices[1].built_in_seconds, 9e-6);
}

TEST(ChooseSchedules, LayersWithoutGemmHaveNoChoiceForMany) {
  LinearShape fine = kShape;
  fine.format.groups = 8;  // 4 tokens are few
  const LinearTimer timer{[](std::int64_t, const SmallBatchSchedule&) { return 1e-6; }, kNoMedium,
                          [](std::int64_t, const GemmPlan&) {
                            ADD_FAILURE() << "there is no kernel";
                            return 1e-6;
                          }};
  const std::int64_t tokens[] = {1, 64};
  LinearCandidates without_plans = candidates();
  without_plans.plans.clear();
  const ChosenSchedules chosen = choose_schedules(fine, tokens, without_plans, timer);
  EXPECT_TRUE(chosen.schedules.few.has_value());
  EXPECT_TRUE(chosen.schedules.many.empty());
  EXPECT_EQ(chosen.choices.size(), 1u);
}

TEST(FewTokenCandidates, TheBuiltInOneIsAmongThem) {
  for (const CodeKind codes : {CodeKind::kInt4, CodeKind::kBook, CodeKind::kInt8, CodeKind::kInt3,
                               CodeKind::kInt2WithZeros, CodeKind::kBook2}) {
    for (const std::int64_t n : {16, 40, 4096, 4240, 14336}) {
      LinearShape shape = kShape;
      shape.format.codes = codes;
      shape.n = n;
      const auto built_in = small_batch_schedule(weights_of(shape).units, 132);
      const bool integers = !is_book(codes) && codes != CodeKind::kInt8;
      EXPECT_EQ(built_in.warps,
                integers && n <= 2 * 132 * kTileRows ? 8 : small_batch_max_warps(codes))
          << n;
      const auto schedules = few_token_candidates(shape, 132);
      EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(), [&](const auto& each) {
        return same_fields(each, built_in);
      })) << n;
    }
  }
}

TEST(FewTokenCandidates, BlocksHaveRowTiles) {
  for (const std::int64_t n : {16, 40, 4096, 14336}) {
    LinearShape shape = kShape;
    shape.n = n;
    const std::int64_t tiles = (n + kTileRows - 1) / kTileRows;
    for (const SmallBatchSchedule& each : few_token_candidates(shape, 132)) {
      EXPECT_GE(each.blocks, 1);
      EXPECT_LE(each.blocks, std::min<std::int64_t>(tiles, 264));
    }
  }
  const auto schedules = few_token_candidates(kShape, 132);  // 256 tiles: 2 for each of 128 blocks
  EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(),
                          [](const auto& each) { return each.blocks == 128; }));
}

}  // namespace
}  // namespace nibble::ops::cuda
