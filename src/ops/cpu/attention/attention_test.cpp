#include "ops/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.h"
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
  p.keys = cache.keys(0, 0);
  p.values = cache.values(0, 0);
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
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kInt8, KvType::kInt4}) {
      EXPECT_LT(difference(attend_rows, c, type), 5e-6) << c.rows << " rows from " << c.first;
      EXPECT_LT(difference(attend_blocks, c, type), 5e-6) << c.rows << " rows from " << c.first;
    }
  }
}

// Every element within half a step of what was stored, the ends of the range exactly as 16 bits
// can; constant vectors, and vectors that are not finite.
TEST(KvCache, IntegersAreWithinHalfAStep) {
  constexpr std::int64_t kDim = 26;
  const std::vector<float> x = normal(kDim, 8);
  const std::vector<float> constant(kDim, 0.7f);
  for (const auto& [type, levels] : {std::pair{KvType::kInt8, 255}, std::pair{KvType::kInt4, 15}}) {
    KvCache cache(type, 2, 3, kDim, 5);
    cache.store(1, 2, 4, x.data(), constant.data());
    const KvView keys = cache.keys(1, 2);
    const auto decoded = [&](const KvView& view, std::int64_t d) {
      const auto* codes = static_cast<const std::uint8_t*>(view.data);
      const std::int64_t at = 4 * kDim + d;
      const int code =
          view.type == KvType::kInt8 ? codes[at] : codes[at / 2] >> (at % 2 == 0 ? 0 : 4) & 15;
      return core::to_float(view.smallest[4]) +
             core::to_float(view.steps[4]) * static_cast<float>(code);
    };
    const auto [smallest, largest] = std::minmax_element(x.begin(), x.end());
    const float step = (*largest - *smallest) / static_cast<float>(levels);
    for (std::int64_t d = 0; d < kDim; ++d) {
      EXPECT_NEAR(decoded(keys, d), x[static_cast<std::size_t>(d)], 0.502f * step + 0.004f);
      EXPECT_NEAR(decoded(cache.values(1, 2), d), 0.7f, 5e-4f);
    }
    std::vector<float> broken = x;
    broken[3] = std::numeric_limits<float>::infinity();
    cache.store(0, 0, 0, broken.data(), x.data());
    EXPECT_TRUE(std::isnan(core::to_float(cache.keys(0, 0).smallest[0])));
  }
  EXPECT_EQ(KvCache::bytes(KvType::kInt4, 2, 3, 64, 10), 2 * 2 * 3 * 10 * (32 + 4));
  EXPECT_EQ(KvCache::bytes(KvType::kInt8, 2, 3, 64, 10), 2 * 2 * 3 * 10 * (64 + 4));
  EXPECT_EQ(KvCache::bytes({KvType::kInt8, KvType::kInt4}, 2, 3, 64, 10),
            2 * 3 * 10 * (64 + 4 + 32 + 4));
  EXPECT_THROW(KvCache(KvType::kInt4, 1, 1, 25, 1), core::Error);
  EXPECT_THROW(KvCache({KvType::kF16, KvType::kInt4}, 1, 1, 25, 1), core::Error);
}

TEST(KvCache, TypesByName) {
  EXPECT_EQ(parse_kv_types("int8"), KvTypes(KvType::kInt8));
  EXPECT_EQ(parse_kv_types("f16-int4"), KvTypes(KvType::kF16, KvType::kInt4));
  for (const char* wrong : {"", "int5", "int8-", "-int8", "int8-int4-f16", "INT8"}) {
    EXPECT_THROW(parse_kv_types(wrong), core::Error) << wrong;
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
  // Keys and values as integers: the error is that of their steps, however the sequence is cut.
  for (const auto& [types, tolerance] :
       {std::pair{KvTypes(KvType::kInt8), 0.006}, std::pair{KvTypes(KvType::kInt4), 0.1},
        std::pair{KvTypes(KvType::kInt8, KvType::kInt4), 0.08},
        std::pair{KvTypes(KvType::kInt4, KvType::kF16), 0.08}}) {
    KvCache rounded_cache(types, 1, 2, 16, kTokens);
    const std::vector<float> rounded = run({17, 1, 1, 3, 18}, &rounded_cache);
    EXPECT_EQ(rounded_cache.key_turn() != nullptr, types.keys == KvType::kInt4);
    EXPECT_EQ(rounded_cache.value_turn() != nullptr, types.values == KvType::kInt4);
    double error = 0;
    double total = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      error += (rounded[i] - whole[i]) * (rounded[i] - whole[i]);
      total += whole[i] * whole[i];
    }
    EXPECT_LT(std::sqrt(error / total), tolerance);
    EXPECT_GT(std::sqrt(error / total), tolerance / 10);
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
