#include "ops/cpu/attention/attention.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "ops/cpu/attention/rope.h"

namespace nibble::ops::cpu {
namespace {

std::vector<float> normal(std::int64_t count, std::uint64_t seed) {
  core::Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = random.normal();
  }
  return values;
}

struct Case {
  std::int64_t rows, first, heads, dim, window;
};

constexpr Case kCases[] = {{1, 0, 1, 8, 0},      {1, 37, 2, 64, 0},  {5, 10, 4, 24, 0},
                           {130, 0, 2, 32, 0},   {70, 33, 3, 16, 0}, {70, 33, 3, 16, 20},
                           {3, 100, 5, 128, 16}, {65, 0, 1, 20, 1}};

using Attend = void (*)(const AttentionProblem&);

// Largest difference between `attend` and the reference.
double difference(Attend attend, const Case& c, KvType type) {
  const std::int64_t keys = c.first + c.rows;
  const std::vector<float> q = normal(c.rows * c.heads * c.dim, 1);
  KvCache cache(type, 1, 1, c.dim, keys);
  const std::vector<float> k = normal(keys * c.dim, 2);
  const std::vector<float> v = normal(keys * c.dim, 3);
  for (std::int64_t j = 0; j < keys; ++j) {
    cache.store(0, 0, j, k.data() + j * c.dim, v.data() + j * c.dim);
  }
  std::vector<float> out(q.size(), std::nanf(""));
  std::vector<float> expected(q.size());
  AttentionProblem p;
  p.q = q.data();
  p.ldq = p.ldo = c.heads * c.dim;
  p.rows = c.rows;
  p.heads = c.heads;
  p.head_dim = c.dim;
  p.first_position = c.first;
  p.window = c.window;
  p.keys = {type, cache.keys(0, 0), c.dim};
  p.values = {type, cache.values(0, 0), c.dim};
  p.out = expected.data();
  attend_reference(p);
  p.out = out.data();
  attend(p);
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double error = std::fabs(static_cast<double>(out[i]) - static_cast<double>(expected[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

TEST(Attention, RowsAndBlocksMatchTheReference) {
  for (const Case& c : kCases) {
    for (const KvType type : {KvType::kF32, KvType::kF16}) {
      EXPECT_LT(difference(attend_rows, c, type), 5e-6) << c.rows << " rows from " << c.first;
      EXPECT_LT(difference(attend_blocks, c, type), 5e-6) << c.rows << " rows from " << c.first;
    }
  }
}

TEST(Attention, ShiftedProblemIsSeen) {
  const auto shifted = [](const AttentionProblem& p) {
    AttentionProblem wrong = p;
    ++wrong.first_position;  // sees one key too many
    --wrong.rows;
    attend_rows(wrong);
  };
  EXPECT_GT(difference(shifted, {5, 10, 2, 16, 0}, KvType::kF32), 1e-3);
}

TEST(Rope, TurnsPairsByTheirAngle) {
  Rotation rotation;
  const std::vector<float> frequency = {1.0f, 0.25f};
  rotation.set(frequency, 3, 1.0f);
  std::vector<float> head = {1, 2, 3, 4, 9};  // the last element is not rotary
  rotate(head.data(), rotation);
  EXPECT_NEAR(head[0], 1 * std::cos(3.0) - 3 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(head[2], 3 * std::cos(3.0) + 1 * std::sin(3.0), 1e-6);
  EXPECT_NEAR(head[1], 2 * std::cos(0.75) - 4 * std::sin(0.75), 1e-6);
  EXPECT_NEAR(head[3], 4 * std::cos(0.75) + 2 * std::sin(0.75), 1e-6);
  EXPECT_EQ(head[4], 9);
}

// The whole operator: continuing a sequence piece by piece gives what one piece gives.
TEST(Attention, ContinuesSequencesFromTheirCaches) {
  auto pool = std::make_shared<BufferPool>();
  core::ThreadPool threads(2);
  AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 16;
  spec.inverse_frequency = {1.0f, 0.5f, 0.25f, 0.125f, 0.1f, 0.05f, 0.02f, 0.01f};
  spec.q_norm = normal(16, 8);
  spec.k_norm = normal(16, 9);
  constexpr std::int64_t kTokens = 40;
  const std::int64_t width = (4 + 2 * 2) * 16;
  const std::vector<float> values = normal(kTokens * width, 4);
  const auto run = [&](const std::vector<std::int64_t>& pieces, KvCache* cache) {
    std::vector<float> result;
    std::int64_t position = 0;
    for (const std::int64_t rows : pieces) {
      Matrix qkv(pool, rows, width);
      std::copy_n(values.data() + position * width, rows * width, qkv.data());
      Matrix out(pool, rows, 64);
      std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
      std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(position));
      const SequenceSlice<KvCache> slice{cache, position, 0, rows};
      attention(qkv, spec, 0, {{}, positions, {&slice, 1}}, out, threads);
      result.insert(result.end(), out.values().begin(), out.values().end());
      position += rows;
    }
    return result;
  };
  const std::vector<float> whole = run({kTokens}, nullptr);
  KvCache cache(KvType::kF32, 1, 2, 16, kTokens);
  const std::vector<float> pieces = run({17, 1, 1, 3, 18}, &cache);
  ASSERT_EQ(whole.size(), pieces.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_NEAR(whole[i], pieces[i], 5e-6) << i;
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
