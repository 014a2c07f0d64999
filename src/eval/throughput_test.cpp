#include "eval/throughput.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace nibble::eval {
namespace {

TEST(Speed, IsTheMedianOfRepeatsBetweenQuartiles) {
  const Speed speed = speed_of({1.0, 2.0, 4.0, 0.5, 8.0}, 80);  // 80, 40, 20, 160, 10 tokens/s
  EXPECT_EQ(speed.median, 40);
  EXPECT_EQ(speed.low, 20);
  EXPECT_EQ(speed.high, 80);
  const Speed once = speed_of({2.0}, 10);
  EXPECT_EQ(once.median, 5);
  EXPECT_EQ(once.high, once.low);
}

TEST(Speed, IsToldWhereRepeatsAgree) {
  ThroughputRow row;
  row.tokens_per_second = {100, 95, 105};
  EXPECT_TRUE(is_steady(row));
  row.tokens_per_second = {570, 93, 580};
  EXPECT_FALSE(is_steady(row)) << "repeats differ";
  row.tokens_per_second = {93, 92, 94};
  row.other_work.waited_share = 0.4;
  EXPECT_FALSE(is_steady(row)) << "all of them waited for a CPU";
  row.other_work.waited_share = 0.02;
  EXPECT_TRUE(is_steady(row));
}

TEST(Limit, MemoryDoesNotLimitWhatTheCacheKeeps) {
  EXPECT_TRUE(stays_in_cache(30 << 20, 32 << 20));
  EXPECT_TRUE(stays_in_cache(64 << 20, 32 << 20)) << "half of it";
  EXPECT_FALSE(stays_in_cache(65 << 20, 32 << 20));
  EXPECT_FALSE(stays_in_cache(1, 0)) << "nothing is known of a cache";
}

// A small model under limits that are made up.
class Throughput : public ::testing::Test {
 protected:
  std::vector<ThroughputRow> measure(const ThroughputOptions& options,
                                     const engine::DeviceLimits& limits) {
    return measure_throughput(*runner_, model_->network, options, limits, core::silent_progress());
  }

  std::shared_ptr<const models::Model> model_ =
      models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/families/llama");
  std::unique_ptr<engine::Runner> runner_ = engine::make_runner(model_, {});
};

TEST_F(Throughput, NamesWhatLimitsARow) {
  const ThroughputOptions options = {.prefill_tokens = 8, .decode_tokens = 4, .batches = {1, 2}};
  const auto by_memory = measure(options, {"", 1e3, 1e15, 0});
  ASSERT_EQ(by_memory.size(), 3u);
  EXPECT_EQ(by_memory[0].limited_by, Limit::kArithmetic) << "prefill";
  for (const std::size_t row : {1u, 2u}) {
    EXPECT_EQ(by_memory[row].limited_by, Limit::kMemory);
    EXPECT_NEAR(by_memory[row].limit_tokens_per_second,
                1e3 / static_cast<double>(by_memory[row].bytes_per_token), 1e-9);
    EXPECT_GT(by_memory[row].share_of_limit, 1) << "no memory is so slow";
  }
  const auto in_cache = measure(options, {"", 1e3, 1e15, 1 << 30});
  for (const std::size_t row : {1u, 2u}) {
    EXPECT_TRUE(in_cache[row].fits_cache);
    EXPECT_EQ(in_cache[row].limited_by, Limit::kArithmetic);
    EXPECT_LT(in_cache[row].share_of_limit, 1);
  }
}

TEST_F(Throughput, RepeatsAsOftenAsAsked) {
  ThroughputOptions options = {.prefill_tokens = 8, .decode_tokens = 0, .repeats = 4};
  EXPECT_EQ(measure(options, {"", 1, 1, 0}).front().repeats, 4);
  options.least_seconds = 1e9;
  EXPECT_EQ(measure(options, {"", 1, 1, 0}).front().repeats, kMostRepeats);
}

}  // namespace
}  // namespace nibble::eval
