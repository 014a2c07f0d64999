#include "ops/cuda/sampling/draw_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/row_draw.h"

namespace nibble::ops::cuda {
namespace {

using CudaDrawRows = device::GpuTest;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TokenDraw draw_of(std::int64_t row, core::Random& random) {
  return {.uniform = row % 9 == 0   ? std::nextafter(1.0, 0.0)
                     : row % 9 == 1 ? 0.0
                                    : random.uniform(),
          .temperature = row % 13 == 5  ? 0.0f
                         : row % 3 == 0 ? 1.0f
                                        : 0.1f + static_cast<float>(row % 20) / 10,
          .top_p = row % 2 == 0 ? 1.0f : 0.1f * static_cast<float>(row % 10),
          .min_p = row % 4 == 0 ? 0.01f : 0.0f,
          .top_k = row % 17 == 6 ? 5 : 0};
}

// Wide and narrow rows, of numbers that are equal, that are forbidden, that are none; draws that
// take many turns.
TEST_F(CudaDrawRows, AreThoseOfTheHost) {
  const device::cuda::Stream stream;
  core::Random random(5);
  for (const std::int64_t columns : {1, 31, 40, 1024, 1025, 32000, 128256}) {
    const std::int64_t rows = columns > 40000 ? 24 : 120;
    std::vector<float> logits = normal_values(rows * columns, 3);
    const auto row_of = [&](std::int64_t row) {
      return std::span(logits).subspan(static_cast<std::size_t>(row * columns),
                                       static_cast<std::size_t>(columns));
    };
    std::vector<RankedToken> first;
    device::cuda::PinnedBuffer memory;
    auto* const draws = memory.room_for<TokenDraw>(rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<float> values = row_of(row);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] *= static_cast<float>(row % 5);
        values[i] = row % 7 == 2 ? std::round(values[i]) : values[i];
        values[i] = row % 7 == 4 && i % 3 != 0 ? -kInfinity : values[i];
      }
      if (row == 15 || row == 22) {
        values.back() = row == 15 ? kInfinity : std::nanf("");
      }
      const auto largest = std::max_element(values.begin(), values.end());
      const auto id = static_cast<std::int32_t>(largest - values.begin());
      first.push_back({row == 22 ? -1 : id, *largest});
      first.push_back({7, 0.0f});  // what a rank of two leaves
      draws[row] = draw_of(row, random);
    }
    const auto device_logits = on_device(logits);
    const auto device_first = on_device(first);
    const device::cuda::Buffer drawn =
        on_device(std::vector<RankedToken>(static_cast<std::size_t>(rows), {-7, 0.0f}));
    draw_rows(device_logits.as<float>(), rows, columns, device_first.as<RankedToken>(), 2, draws,
              drawn.as<RankedToken>(), stream.get());
    stream.synchronize();
    const auto got = drawn.values<RankedToken>();
    RowWeights weights;
    std::int64_t behind_the_first = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const bool untouched = draws[row].temperature == 0.0f || draws[row].top_k != 0;
      const std::int32_t largest = first[static_cast<std::size_t>(2 * row)].id;
      const std::int32_t expected = untouched     ? -7
                                    : largest < 0 ? -1
                                                  : draw_from_row(row_of(row), draws[row], weights);
      EXPECT_EQ(got[static_cast<std::size_t>(row)].id, expected) << row << " of " << columns;
      behind_the_first += expected >= 0 && expected != largest ? 1 : 0;
    }
    EXPECT_EQ(behind_the_first > rows / 3, columns > 1) << columns;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
