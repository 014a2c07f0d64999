#include "ops/cuda/sampling/ranking.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaRanking = device::GpuTest;

std::vector<RankedToken> sorted(std::span<const float> row, std::int64_t count) {
  std::vector<RankedToken> tokens;
  for (std::size_t i = 0; i < row.size(); ++i) {
    tokens.push_back({static_cast<std::int32_t>(i), row[i]});
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const RankedToken& a, const RankedToken& b) { return a.logit > b.logit; });
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

// Of rows that differ, that are equal in whole or in part, and of which one block has the largest.
TEST_F(CudaRanking, IsAStableSort) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const device::cuda::Stream stream;
  for (const std::pair<std::int64_t, std::int64_t>& shape :
       std::vector<std::pair<std::int64_t, std::int64_t>>{
           {5, 1}, {5, 40}, {5, 4096}, {5, 4097}, {5, 50257}, {5, 128256}, {20, 32000}}) {
    const std::int64_t rows = shape.first;
    const std::int64_t columns = shape.second;
    std::vector<float> logits = normal_values(rows * columns, 3);
    const auto row = [&](std::int64_t i) {
      return std::span(logits).subspan(static_cast<std::size_t>(i * columns),
                                       static_cast<std::size_t>(columns));
    };
    for (float& value : row(1)) {
      value = std::round(value);  // ties, and zeros of both signs
    }
    std::fill(row(2).begin(), row(2).end(), -kInfinity);
    row(3)[static_cast<std::size_t>(columns / 3)] = std::numeric_limits<float>::quiet_NaN();
    std::iota(row(4).begin(), row(4).end(), -5.0f);  // all the largest in one block
    const auto device_logits = on_device(logits);
    for (const std::int64_t wanted : {1, 40, 64, 300, 1000}) {
      const std::int64_t count = std::min(wanted, columns);
      device::cuda::PinnedBuffer ranked;
      const std::span got(ranked.room_for<RankedToken>(rows * count),
                          static_cast<std::size_t>(rows * count));
      std::fill(got.begin(), got.end(), RankedToken{-7, 0.0f});
      const device::cuda::Buffer scratch(ranking_bytes(rows, columns, count));
      rank(device_logits.as<float>(), rows, columns, count, ranked.as<RankedToken>(),
           scratch.data(), stream.get());
      stream.synchronize();
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto begin = got.begin() + i * count;
        if (i == 3) {
          EXPECT_EQ(begin->id, -1);
          continue;
        }
        EXPECT_EQ(std::vector<RankedToken>(begin, begin + count), sorted(row(i), count))
            << columns << " columns, row " << i << ", " << count;
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
