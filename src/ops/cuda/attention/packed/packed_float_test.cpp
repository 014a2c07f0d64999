#include "ops/cuda/attention/packed/packed_float.h"

#include <cmath>
#include <numeric>

#include "core/error.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/attention/memory/memory_reference.h"
#include "ops/cuda/device_arrays_for_tests.h"

// Packed attention in float32 beside the reference of attention to memories: a text that sees
// itself is one whose rows read what they stored.
namespace nibble::ops::cuda {
namespace {

using CudaPackedFloat = device::GpuTest;
using Lengths = std::vector<std::int64_t>;

struct Problem {
  PackedAttention shape;
  std::vector<std::int32_t> firsts;
  std::int64_t rows = 0;
  std::int64_t stride = 0;
  std::vector<float> qkv;
  MemoryProblem memory;
};

Problem problem_of(const PackedAttention& shape, const Lengths& lengths, std::int64_t spare = 0) {
  Problem p;
  p.shape = shape;
  p.memory = {shape.heads, shape.kv_heads, shape.head_dim, {}, {}, {}};
  for (const std::int64_t length : lengths) {
    p.firsts.push_back(static_cast<std::int32_t>(p.rows));
    p.memory.texts.push_back({length, length});
    p.rows += length;
  }
  const std::int64_t heads = shape.heads * shape.head_dim;
  const std::int64_t width = heads + 2 * shape.kv_heads * shape.head_dim;
  p.stride = width + spare;
  p.qkv = normal_values(p.rows * p.stride, 7);
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto at = p.qkv.begin() + row * p.stride;
    p.memory.q.insert(p.memory.q.end(), at, at + heads);
    p.memory.kv.insert(p.memory.kv.end(), at + heads, at + width);
  }
  return p;
}

PackedAttention shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                         std::int64_t tile_rows = kPackedTileRows) {
  return {heads, kv_heads, head_dim, 1.0f / std::sqrt(static_cast<float>(head_dim)), tile_rows};
}

// With empty tiles and rows of 0xff bytes behind the texts.
std::vector<float> attend(const Problem& p, std::int64_t spare = 2) {
  const auto texts = packed_tiles(p.firsts, p.rows, 0, p.shape.tile_rows);
  const auto count = static_cast<std::int64_t>(texts.size()) + spare;
  const auto tiles = on_device(packed_tiles(p.firsts, p.rows, count, p.shape.tile_rows));
  const auto qkv = on_device(p.qkv);
  const auto y = poisoned<float>((p.rows + 1) * p.shape.heads * p.shape.head_dim);
  const device::cuda::Stream stream;
  packed_attention_float(p.shape, qkv.as<float>(), p.stride, tiles.as<PackedTile>(), count,
                         y.as<float>(), stream.get());
  stream.synchronize();
  return y.values<float>();
}

void expect_reference(const Problem& p) {
  const std::vector<double> expected = reference_memory_attention(p.memory, false, false);
  const std::vector<float> made = attend(p);
  ASSERT_EQ(made.size(),
            expected.size() + static_cast<std::size_t>(p.shape.heads * p.shape.head_dim));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(made[i], expected[i], 1e-5) << i;
  }
  for (std::size_t i = expected.size(); i < made.size(); ++i) {
    ASSERT_TRUE(std::isnan(made[i])) << i;  // nothing was written
  }
}

TEST_F(CudaPackedFloat, ServesEveryHeadSizeAndHeight) {
  for (const std::int64_t head_dim : {8, 12, 18, 32, 48, 64, 80, 96, 128, 200, 512}) {
    for (const std::int64_t tile_rows : {32, 64, 128}) {
      SCOPED_TRACE(testing::Message() << head_dim << " in tiles of " << tile_rows);
      expect_reference(problem_of(shape_of(2, 1, head_dim, tile_rows), {1, 2, 33, 64, 65, 7}, 3));
    }
  }
}

TEST_F(CudaPackedFloat, ServesManyHeadsAndLongTexts) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {3, 3}, {12, 4}}) {
    SCOPED_TRACE(testing::Message() << heads << "/" << kv_heads);
    expect_reference(problem_of(shape_of(heads, kv_heads, 64), {300, 1, 129}));
  }
}

TEST_F(CudaPackedFloat, RefusesWhatPackedAttentionRefuses) {
  Problem p = problem_of(shape_of(2, 2, 64), {5});
  for (const PackedAttention& shape :
       {shape_of(3, 2, 64), shape_of(2, 2, 513), PackedAttention{2, 2, 64, 0.0f, 64}}) {
    p.shape = shape;
    EXPECT_THROW(attend(p), core::Error);
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
