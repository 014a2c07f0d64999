#include "ops/cuda/divided/join_columns.h"

#include <vector>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/elementwise/elementwise.h"

namespace nibble::ops::cuda {
namespace {

class JoinColumns : public device::GpuTest {};

TEST_F(JoinColumns, PutsThePartsOfRanksSideBySide) {
  const device::cuda::Stream stream;
  for (const auto& widths :
       std::vector<std::vector<std::int64_t>>{{5}, {3, 1}, {1000, 1001, 1}, {16000, 16016}}) {
    for (const std::int64_t m : {1, 2, 17}) {
      RankColumns columns;
      std::int64_t widest = 0;
      for (const std::int64_t width : widths) {
        columns.first[columns.ranks + 1] =
            columns.first[columns.ranks] + static_cast<std::int32_t>(width);
        ++columns.ranks;
        widest = std::max(widest, width);
      }
      const std::int64_t stride = m * widest + 3;
      const std::int64_t all = columns.first[columns.ranks];
      std::vector<float> parts(static_cast<std::size_t>(columns.ranks * stride), -1.0f);
      std::vector<float> expected(static_cast<std::size_t>(m * all));
      for (std::int64_t rank = 0; rank < columns.ranks; ++rank) {
        const std::int64_t width = widths[static_cast<std::size_t>(rank)];
        for (std::int64_t row = 0; row < m; ++row) {
          for (std::int64_t i = 0; i < width; ++i) {
            const auto value = static_cast<float>(row * all + columns.first[rank] + i);
            parts[static_cast<std::size_t>(rank * stride + row * width + i)] = value;
            expected[static_cast<std::size_t>(row * all + columns.first[rank] + i)] = value;
          }
        }
      }
      const auto from = on_device(parts);
      const auto to = poisoned<float>(m * all);
      join_columns(from.as<float>(), stride, columns, to.as<float>(), m, stream.get());
      stream.synchronize();
      EXPECT_EQ(to.values<float>(), expected) << m << " rows of " << all;
    }
  }
}

// What is in another rank's part of a table is 0, so that a sum over ranks is the row.
TEST_F(JoinColumns, EmbedsPartsOfATable) {
  const device::cuda::Stream stream;
  constexpr std::int64_t kColumns = 7;
  const std::vector<float> rows = normal_values(5 * kColumns, 3);
  const auto table = on_device(rows);
  const std::vector<std::int32_t> ids = {10, 9, 14, 15, 12};  // of which the table has 10 to 14
  const auto numbers = on_device(ids);
  const auto x = poisoned<float>(std::ssize(ids) * kColumns);
  embed_part({table.as<float>(), core::DType::kF32, 5, kColumns}, numbers.as<std::int32_t>(), 10,
             x.as<float>(), std::ssize(ids), stream.get());
  stream.synchronize();
  std::vector<float> expected;
  for (const std::int32_t id : ids) {
    for (std::int64_t i = 0; i < kColumns; ++i) {
      const bool here = id >= 10 && id < 15;
      expected.push_back(here ? rows[static_cast<std::size_t>((id - 10) * kColumns + i)] : 0.0f);
    }
  }
  EXPECT_EQ(x.values<float>(), expected);
}

}  // namespace
}  // namespace nibble::ops::cuda
