#include "ops/cpu/matrix.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kSpare = BufferPool::kSpareFloats;
constexpr std::int64_t kFloat = sizeof(float);

TEST(BufferPool, TakesWhatItKept) {
  const auto pool = std::make_shared<BufferPool>();
  for (int step = 0; step < 3; ++step) {
    const Matrix small(pool, 1, 1000);
    const Matrix large(pool, 100, 1000);
  }
  EXPECT_LE(pool->peak_bytes(), (101 * 1000 + 2 * 16) * kFloat);
}

// From 2 MiB on: rows of a matrix then share pages.
TEST(BufferPool, LargeMatricesBeginAtAHugePage) {
  const auto pool = std::make_shared<BufferPool>();
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  for (const std::int64_t columns : {524288, 524289, 3000001}) {
    const Matrix matrix(pool, 1, columns);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(matrix.data()) % kHugePage, 0u) << columns;
  }
  EXPECT_LE(pool->bytes(), (524288 + 524289 + 3000001 + 3 * 16) * kFloat);  // and take no more
}

// Batches that grow leave no earlier one behind.
TEST(BufferPool, KeepsLittleMoreThanWasInUse) {
  const auto pool = std::make_shared<BufferPool>();
  std::int64_t most = 0;
  for (std::int64_t rows = kSpare / 1000; rows < 8 * kSpare / 1000; rows += kSpare / 1000) {
    const Matrix one(pool, rows, 1000);
    const Matrix other(pool, rows, 500);
    most = rows * 1500 + 2 * 16;
    EXPECT_LE(pool->bytes(), most * 5 / 4 * kFloat) << rows;
  }
  EXPECT_GT(pool->bytes(), 0);
  EXPECT_LE(pool->peak_bytes(), most * 5 / 4 * kFloat);
}

TEST(BufferPool, StaysInBoundsWhateverIsAsked) {
  const auto pool = std::make_shared<BufferPool>();
  core::Random random(1);
  std::vector<Matrix> used;
  std::int64_t in_use = 0;
  std::int64_t most = 0;
  for (int step = 0; step < 2000; ++step) {
    if (!used.empty() && random.below(2) == 0) {
      const auto at = static_cast<std::size_t>(random.below(std::ssize(used)));
      std::swap(used[at], used.back());
      in_use -= used.back().rows() * used.back().columns();
      used.pop_back();
    } else {
      used.emplace_back(pool, 1 + random.below(kSpare / 4000), 1 + random.below(1000));
      in_use += used.back().rows() * used.back().columns();
      // A buffer that is taken again may be four times as large as what is asked for.
      most = std::max(most, 4 * in_use + 4112 * std::ssize(used));
    }
    ASSERT_LE(pool->bytes(), std::max(most * 5 / 4, kSpare) * kFloat) << step;
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
