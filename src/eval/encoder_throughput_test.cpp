#include "eval/encoder_throughput.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "core/error.h"

namespace nibble::eval {
namespace {

// A small model under limits that are made up.
class EncoderThroughput : public ::testing::Test {
 protected:
  void SetUp() override { model_->network.pooling = {models::PoolingMode::kFirst, false}; }

  std::vector<EncoderThroughputRow> measure(const std::vector<EncoderShape>& shapes,
                                            const engine::DeviceLimits& limits,
                                            std::int64_t repeats = 3) {
    const auto encoder = engine::make_encoder(model_, {});
    return measure_encoder_throughput(*encoder, model_->network, {shapes, repeats, 0}, limits,
                                      core::silent_progress());
  }

  std::shared_ptr<models::Model> model_ = std::make_shared<models::Model>(
      *models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/families/bert"));
};

TEST_F(EncoderThroughput, CountsMultiplicationsOfLayersAndAttention) {
  const auto rows = measure({{1, 1}, {2, 16}}, {"", 1e15, 1e9, 0});
  ASSERT_EQ(rows.size(), 2u);
  const models::NetworkConfig& config = model_->network.config;
  const std::int64_t layer = 4 * config.hidden * config.hidden + 2 * config.hidden * config.ffn;
  for (const EncoderThroughputRow& row : rows) {
    EXPECT_EQ(row.limited_by, Limit::kArithmetic);
    const std::int64_t of_token = layer + 2 * config.hidden * row.shape.tokens;
    EXPECT_NEAR(
        row.limit_seconds,
        static_cast<double>(row.shape.texts * row.shape.tokens * config.layers * of_token) / 1e9,
        1e-12);
    EXPECT_NEAR(row.share_of_limit, row.limit_seconds / row.median_seconds, 1e-9);
    EXPECT_LE(row.median_seconds, row.p99_seconds);
    EXPECT_NEAR(row.tokens_per_second.median * row.median_seconds,
                static_cast<double>(row.shape.texts * row.shape.tokens), 1e-3);
  }
}

TEST_F(EncoderThroughput, ReadsItsWeightsOnceInACall) {
  const auto by_memory = measure({{1, 4}, {3, 4}}, {"", 1e3, 1e15, 0});
  const models::NetworkConfig& config = model_->network.config;
  const std::int64_t weights =
      config.layers * (4 * config.hidden * config.hidden + 2 * config.hidden * config.ffn);
  for (const EncoderThroughputRow& row : by_memory) {
    EXPECT_EQ(row.weight_bytes, 4 * weights) << "of float32";
    EXPECT_EQ(row.limited_by, Limit::kMemory);
    EXPECT_NEAR(row.limit_seconds, static_cast<double>(4 * weights) / 1e3, 1e-9);
  }
  EXPECT_TRUE(measure({{1, 4}}, {"", 1e3, 1e15, 1 << 30}).front().fits_cache);
}

TEST_F(EncoderThroughput, RepeatsAndRefuses) {
  EXPECT_EQ(measure({{1, 4}}, {"", 1, 1, 0}, 5).front().repeats, 5);
  const std::int64_t most = model_->network.config.max_positions;
  EXPECT_THROW(measure({{1, most + 1}}, {"", 1, 1, 0}), core::Error);
  EXPECT_THROW(measure({{0, 4}}, {"", 1, 1, 0}), core::Error);
  EXPECT_THROW(measure({{1, 4}}, {"", 1, 1, 0}, 0), core::Error);
}

}  // namespace
}  // namespace nibble::eval
