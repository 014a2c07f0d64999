#include "ops/cuda/sampling/draw_tokens.h"

#include "core/random.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/row_draw.h"

namespace nibble::ops::cuda {
namespace {

using CudaDrawTokens = device::GpuTest;

// The same bits: draws lie beside the borders of tokens, too.
TEST_F(CudaDrawTokens, AreThoseOfTheHost) {
  const device::cuda::Stream stream;
  core::Random random(5);
  for (const std::int64_t count : {1, 5, 32, 33, 40, 64}) {
    constexpr std::int64_t kRows = 501;
    std::vector<RankedToken> ranked;
    device::cuda::PinnedBuffer memory;
    auto* const draws = memory.room_for<TokenDraw>(kRows);
    for (std::int64_t row = 0; row < kRows; ++row) {
      float logit = 10.0f * random.normal();
      const float step = row % 5 == 0 ? 0.0f : 0.3f * static_cast<float>(row % 7);
      for (std::int64_t i = 0; i < count; ++i) {
        const bool none = (row % 11 == 3 && i >= count / 2) || (row == 17);
        ranked.push_back({none ? -1 : static_cast<std::int32_t>(1000 + i), logit});
        logit -= step * static_cast<float>(random.uniform());
      }
      draws[row] = {.uniform = row % 3 == 0 ? static_cast<double>(row % 64) / 64 : random.uniform(),
                    .temperature = row % 13 == 0 ? 0.0f : 0.05f + static_cast<float>(row % 20) / 10,
                    .top_p = row % 2 == 0 ? 1.0f : 0.5f + static_cast<float>(row % 5) / 10,
                    .min_p = row % 4 == 0 ? 0.1f : 0.0f,
                    .top_k = static_cast<std::int32_t>(row % 4 == 1 ? row % 70 : 0)};
    }
    const auto device_ranked = on_device(ranked);
    const device::cuda::Buffer drawn(kRows * std::int64_t{sizeof(RankedToken)});
    draw_tokens(device_ranked.as<RankedToken>(), kRows, count, draws, drawn.as<RankedToken>(),
                stream.get());
    stream.synchronize();
    const auto got = drawn.values<RankedToken>();
    RowWeights weights;
    std::size_t behind_the_first = 0;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto first = static_cast<std::size_t>(row * count);
      const RankedToken expected = draw_from_ranked(
          std::span(ranked).subspan(first, static_cast<std::size_t>(count)), draws[row], weights);
      EXPECT_EQ(got[static_cast<std::size_t>(row)].id, expected.id) << row << " of " << count;
      behind_the_first += expected.id > 1000 ? 1 : 0;
    }
    EXPECT_EQ(behind_the_first > kRows / 8, count > 1) << count;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
