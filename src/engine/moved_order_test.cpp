#include "models/moved_order.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "engine/fixed_sequences.h"
#include "engine/runner.h"
#include "formats/ordered_weight_for_tests.h"

// Orders of inputs that are moved to the outputs of the layers before: the bits of whole models.
namespace nibble::engine {
namespace {

constexpr std::int64_t kTokens = 40;

/// Each set of its blocks in an order of its own, but for routers.
std::shared_ptr<models::Model> in_order(const char* family, const std::string& scheme) {
  auto model =
      models::open_model(std::filesystem::path(NIBBLE_SOURCE_DIR) / "tests/families" / family);
  for (models::Block& block : model->network.decoder.blocks) {
    for (ops::LinearSet* set : models::linear_sets(block)) {
      for (ops::Linear& part : set->parts) {
        if (!block.router || set != &*block.router) {
          part.weight = formats::ordered_weight(core::to_float32(part.weight.dense), part.weight.n,
                                                part.weight.k, formats::parse_scheme(scheme),
                                                static_cast<std::uint64_t>(set->id));
        }
      }
    }
  }
  return model;
}

void move_order(models::Mlp& mlp) {
  ASSERT_TRUE(models::can_move_order(mlp));
  mlp = {models::up_in_order_of_down(mlp), models::down_without_order(mlp)};
  EXPECT_FALSE(models::can_move_order(mlp));
}

std::vector<float> logits(const std::shared_ptr<const models::Model>& model) {
  RunnerOptions options;
  options.cpu.threads = 1;
  const auto runner = make_runner(model, options);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < kTokens; ++i) {
    tokens.push_back(i * 37 % 64);
  }
  std::vector<float> all;
  runner->score(tokens, [&](std::int64_t, const LogitsView& part) {
    for (std::int64_t i = 0; i < part.rows; ++i) {
      all.insert(all.end(), part.row(i).begin(), part.row(i).end());
    }
  });
  return all;
}

// Gate and up apart and in one layer, with and without a gate, with biases, and of experts.
TEST(MovedOrder, KeepsEveryBitOfTheLogits) {
  for (const char* family : {"llama", "phi3", "gpt2", "mixtral"}) {
    for (const char* scheme : {"int4-asym-g32-order", "int4-sym-row-a8-order"}) {
      const auto model = in_order(family, scheme);
      auto moved = std::make_shared<models::Model>(*model);
      for (models::Block& block : moved->network.decoder.blocks) {
        if (block.mlp) {
          move_order(*block.mlp);
        }
        for (models::Mlp& expert : block.experts) {
          move_order(expert);
        }
      }
      const std::vector<float> expected = logits(model);
      ASSERT_FALSE(expected.empty());
      EXPECT_EQ(logits(moved), expected) << family << ", " << scheme;
    }
  }
}

TEST(MovedOrder, StaysWhereOutputsCannotTakeIt) {
  const auto model = in_order("llama", "int4-asym-g32-order");
  const models::Mlp whole = *model->network.decoder.blocks.front().mlp;
  ASSERT_TRUE(models::can_move_order(whole));
  const ops::LowRank adapter{};
  models::Mlp mlp = whole;
  mlp.down.parts.front().low_rank = adapter;
  EXPECT_FALSE(models::can_move_order(mlp));
  mlp = whole;
  mlp.up.parts.back().low_rank = adapter;
  EXPECT_FALSE(models::can_move_order(mlp));
  mlp = whole;
  mlp.up.parts.back().weight.scheme = formats::parse_scheme("f16");
  EXPECT_FALSE(models::can_move_order(mlp));
  mlp = whole;
  mlp.up.parts.back().weight.scheme = formats::parse_scheme("int4-asym-g16-bsr");
  EXPECT_FALSE(models::can_move_order(mlp));
  mlp = whole;
  mlp.up.parts.back().weight.n /= 2;  // what a rank has
  EXPECT_FALSE(models::can_move_order(mlp));
}

}  // namespace
}  // namespace nibble::engine
