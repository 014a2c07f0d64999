#include "ops/cuda/sampling/send_tokens.h"

#include <algorithm>

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaSendTokens = device::GpuTest;

TEST_F(CudaSendTokens, AllOfThemAndNothingBehind) {
  const device::cuda::Stream stream;
  for (const std::int64_t count : {0, 1, 3, 256, 257, 16384}) {
    std::vector<RankedToken> ranked;
    for (std::int32_t i = 0; i < count; ++i) {
      ranked.push_back({7 * i - 1, 0.5f * static_cast<float>(i)});
    }
    const RankedToken untouched{-5, 1.0f};
    device::cuda::PinnedBuffer host((count + 1) * std::int64_t{sizeof(RankedToken)});
    auto* const there = host.as<RankedToken>();
    std::fill_n(there, count + 1, untouched);
    const auto from = on_device(ranked);
    send_tokens(from.as<const RankedToken>(), count, there, stream.get());
    stream.synchronize();
    EXPECT_TRUE(std::equal(ranked.begin(), ranked.end(), there)) << count;
    EXPECT_EQ(there[count], untouched) << count;
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
