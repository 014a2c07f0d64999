#include "ops/cuda/attention/packed/packed_attention.h"

#include <cmath>
#include <numeric>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/attention/packed/packed_reference.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaPackedAttention = device::GpuTest;
using device::cuda::Buffer;
using Lengths = std::vector<std::int64_t>;
using Halves = std::vector<std::uint16_t>;

const Lengths kShort{16, 1, 65, 15, 17, 64, 128, 63, 33};
const Lengths kAll{1, 512, 15, 16, 17, 511, 63, 64, 65, 128, 200, 256};

PackedAttention shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                         std::int64_t tile_rows = kPackedTileRows) {
  return {heads, kv_heads, head_dim, 1.0f / std::sqrt(static_cast<float>(head_dim)), tile_rows};
}

// Texts of numbers with a large channel, so that weights differ; `spare` columns behind the values.
PackedProblem problem_of(const PackedAttention& shape, const Lengths& lengths,
                         std::int64_t spare = 0, float size = 1.0f) {
  PackedProblem problem;
  problem.shape = shape;
  problem.stride = (shape.heads + 2 * shape.kv_heads) * shape.head_dim + spare;
  for (const std::int64_t length : lengths) {
    problem.firsts.push_back(static_cast<std::int32_t>(problem.rows));
    problem.rows += length;
  }
  const std::vector<float> values = normal_values(problem.rows * problem.stride, 7);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto column = static_cast<std::int64_t>(i) % problem.stride;
    const bool large = column % shape.head_dim == 3;
    problem.qkv.push_back(saturated_fp16(values[i] * size * (large ? 4.0f : 1.0f)));
  }
  return problem;
}

using Kernel = decltype(packed_attention);

// y, of bytes 0xff before, with `spare` rows and empty tiles behind the texts.
Halves attend(const PackedProblem& problem, std::int64_t spare = 0,
              Kernel* kernel = packed_attention) {
  const std::vector<PackedTile> texts =
      packed_tiles(problem.firsts, problem.rows, 0, problem.shape.tile_rows);
  const auto count = static_cast<std::int64_t>(texts.size()) + spare;
  const auto tiles =
      on_device(packed_tiles(problem.firsts, problem.rows, count, problem.shape.tile_rows));
  const auto qkv = on_device(problem.qkv);
  const auto y = poisoned<std::uint16_t>((problem.rows + spare) * problem.shape.heads *
                                         problem.shape.head_dim);
  const device::cuda::Stream stream;
  kernel(problem.shape, qkv.as<__half>(), problem.stride, tiles.as<PackedTile>(), count,
         y.as<__half>(), stream.get());
  stream.synchronize();
  return y.values<std::uint16_t>();
}

double number(std::uint16_t half) {
  return core::to_float(core::Fp16{half});
}

// Every result within its bound, and on the whole much nearer.
void expect_near(const Halves& y, const PackedReference& expected) {
  ASSERT_EQ(y.size(), expected.y.size());
  double worst = 0.0;
  double squares = 0.0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double part = std::fabs(number(y[i]) - expected.y[i]) / expected.bounds[i];
    worst = std::isnan(part) ? INFINITY : std::max(worst, part);
    squares += part * part;
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_LE(std::sqrt(squares / static_cast<double>(y.size())), 0.25);
}

TEST_F(CudaPackedAttention, IsThatOfTheReferenceAtEveryLength) {
  for (const std::int64_t head_dim : {32, 64, 128}) {
    SCOPED_TRACE(head_dim);
    const PackedProblem problem = problem_of(shape_of(2, 2, head_dim), kAll);
    expect_near(attend(problem), reference_packed_attention(problem));
  }
}

TEST_F(CudaPackedAttention, ServesEveryHeadSizeAndHeight) {
  for (const std::int64_t head_dim : {16, 32, 64, 80, 96, 128, 8, 20, 48, 256}) {
    for (const std::int64_t tile_rows : {32, 64, 128}) {
      SCOPED_TRACE(testing::Message() << head_dim << " in tiles of " << tile_rows);
      const PackedProblem problem = problem_of(shape_of(3, 1, head_dim, tile_rows), kShort);
      expect_near(attend(problem), reference_packed_attention(problem));
    }
  }
}

TEST_F(CudaPackedAttention, ServesManyHeadsAndSharedOnes) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {12, 12}, {16, 16}, {12, 4}, {16, 1}}) {
    SCOPED_TRACE(testing::Message() << heads << "/" << kv_heads);
    const PackedProblem problem = problem_of(shape_of(heads, kv_heads, 64), kShort, 24);
    expect_near(attend(problem), reference_packed_attention(problem));
  }
}

// Scores far beyond the largest float16; one key of each row has all the weight.
TEST_F(CudaPackedAttention, HoldsScoresInFloat32) {
  const PackedProblem problem = problem_of(shape_of(1, 1, 64), {40, 130}, 0, 60.0f);
  expect_near(attend(problem), reference_packed_attention(problem));
}

// One text of a batch, in tiles of another height.
PackedProblem alone(const PackedProblem& batch, std::size_t text, std::int64_t length,
                    std::int64_t tile_rows) {
  PackedProblem one = batch;
  one.shape.tile_rows = tile_rows;
  one.rows = length;
  one.firsts = {0};
  const auto from = batch.qkv.begin() + batch.firsts[text] * batch.stride;
  one.qkv.assign(from, from + length * batch.stride);
  return one;
}

void expect_same_bits_alone(const PackedProblem& batch, Kernel* kernel) {
  const Halves together = attend(batch, 0, kernel);
  const std::int64_t width = batch.shape.heads * batch.shape.head_dim;
  for (std::size_t text = 0; text < kAll.size(); ++text) {
    const auto begin = together.begin() + batch.firsts[text] * width;
    const Halves expected(begin, begin + kAll[text] * width);
    for (const std::int64_t tile_rows : {32, 64, 128}) {
      SCOPED_TRACE(testing::Message() << kAll[text] << " rows in tiles of " << tile_rows);
      EXPECT_EQ(attend(alone(batch, text, kAll[text], tile_rows), 0, kernel), expected);
    }
  }
}

TEST_F(CudaPackedAttention, GivesATextTheSameBitsInAnyBatch) {
  for (const std::int64_t head_dim : {32, 64, 128}) {
    SCOPED_TRACE(head_dim);
    expect_same_bits_alone(problem_of(shape_of(3, 3, head_dim), kAll), packed_attention);
    expect_same_bits_alone(problem_of(shape_of(3, 3, head_dim), kAll), packed_attention_int8);
  }
}

// The reference rounds queries and keys by itself.
TEST_F(CudaPackedAttention, RoundsScoresToInt8AsTheReferenceDoes) {
  for (const std::int64_t head_dim : {32, 64, 96, 128}) {
    for (const std::int64_t tile_rows : {32, 64, 128}) {
      SCOPED_TRACE(testing::Message() << head_dim << " in tiles of " << tile_rows);
      const PackedProblem problem = problem_of(shape_of(4, 2, head_dim, tile_rows), kShort, 8);
      expect_near(attend(problem, 0, packed_attention_int8),
                  reference_packed_attention_int8(problem));
    }
  }
}

// Rows of zeros have no scale; of a query of zeros all keys weigh the same.
TEST_F(CudaPackedAttention, RoundsRowsOfZeros) {
  PackedProblem problem = problem_of(shape_of(1, 1, 64), {37});
  std::fill(problem.qkv.begin(), problem.qkv.begin() + 128, core::Fp16{0});  // q and k of row 0
  expect_near(attend(problem, 0, packed_attention_int8), reference_packed_attention_int8(problem));
}

// NaN in a key reaches every row of its text.
TEST_F(CudaPackedAttention, KeepsNaNWhenItRounds) {
  PackedProblem problem = problem_of(shape_of(1, 1, 64), {37, 20});
  problem.qkv[static_cast<std::size_t>(5 * problem.stride + 64)] = core::Fp16{0x7e00};
  const Halves y = attend(problem, 0, packed_attention_int8);
  EXPECT_TRUE(std::isnan(number(y[0])));
  EXPECT_TRUE(std::isnan(number(y[36 * 64])));
  EXPECT_FALSE(std::isnan(number(y[37 * 64])));
}

// Texts of NaN on both sides, and rows of NaN behind the last one.
TEST_F(CudaPackedAttention, ReadsNothingOfOtherTexts) {
  for (const std::int64_t head_dim : {64, 48}) {
    PackedProblem problem = problem_of(shape_of(2, 2, head_dim), {30, 70, 10});
    const PackedReference expected = reference_packed_attention(problem);
    const auto at = [&](std::int64_t row) { return problem.qkv.begin() + row * problem.stride; };
    std::fill(at(0), at(30), core::Fp16{0x7e00});
    std::fill(at(100), at(110), core::Fp16{0x7e00});
    const Halves y = attend(problem);
    const auto width = static_cast<std::size_t>(2 * head_dim);
    for (std::size_t i = 30 * width; i < 100 * width; ++i) {
      ASSERT_LE(std::fabs(number(y[i]) - expected.y[i]), expected.bounds[i]) << i;
    }
    EXPECT_TRUE(std::isnan(number(y[0])));
    EXPECT_TRUE(std::isnan(number(y.back())));
  }
}

// A query, a key or a value of any row, in any head; the float16 before the last is none.
TEST_F(CudaPackedAttention, NotesTheEndOfTheRange) {
  for (const std::int64_t head_dim : {64, 48}) {
    for (const std::int64_t tile_rows : {32, 64, 128}) {
      PackedProblem problem = problem_of(shape_of(2, 1, head_dim, tile_rows), {30, 200, 10});
      Buffer flag = on_device(std::vector<std::int32_t>{0});
      problem.shape.saturated = flag.as<std::int32_t>();
      const auto noted = [&] {
        attend(problem);
        return flag.values<std::int32_t>().front() != 0;
      };
      EXPECT_FALSE(noted());
      for (const std::int64_t row : {0, 29, 30, 93, 94, 229, 230, 239}) {
        for (std::int64_t head = 0; head < 4; ++head) {  // two of queries, keys, values
          SCOPED_TRACE(testing::Message() << "row " << row << ", head " << head);
          core::Fp16& value = problem.qkv[static_cast<std::size_t>(
              row * problem.stride + head * head_dim + row % head_dim)];
          const core::Fp16 before = value;
          value = core::Fp16{0x7bfe};
          EXPECT_FALSE(noted());
          value = core::Fp16{0x7bff};
          EXPECT_TRUE(noted());
          value = before;
          const std::int32_t lowered = 0;
          flag.upload(&lowered, sizeof(lowered));
        }
      }
    }
  }
}

TEST_F(CudaPackedAttention, LeavesRowsOfEmptyTilesAlone) {
  for (const std::int64_t head_dim : {64, 48}) {
    const PackedProblem problem = problem_of(shape_of(2, 2, head_dim), {20});
    const Halves y = attend(problem, 3);
    const auto width = static_cast<std::ptrdiff_t>(2 * head_dim);
    EXPECT_EQ(Halves(y.begin() + 20 * width, y.end()),
              Halves(static_cast<std::size_t>(3 * width), 0xffff));
    EXPECT_EQ(Halves(y.begin(), y.begin() + 20 * width), attend(problem));
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
