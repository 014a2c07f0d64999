#include "ops/cuda/sampling/take_tokens.h"

#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {
namespace {

using CudaTakeTokens = device::GpuTest;

TEST_F(CudaTakeTokens, OfRowsInAnyOrderAndKnownOnesStay) {
  const device::cuda::Stream stream;
  for (const std::int64_t count : {1, 64}) {
    for (const std::int64_t m : {1, 3, 257, 1000}) {
      const std::int64_t rows = m / 2 + 1;
      std::vector<RankedToken> ranked(static_cast<std::size_t>(rows * count), {9999, 0.0f});
      for (std::int64_t row = 0; row < rows; ++row) {
        ranked[static_cast<std::size_t>(row * count)].id =
            row % 7 == 3 ? -1 : static_cast<std::int32_t>(10 * row);
      }
      std::vector<std::int32_t> tokens;
      std::vector<std::int32_t> expected;
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t row = (i * 5 + 1) % (rows + 1);  // the last is none
        const bool known = i % 3 == 1;
        tokens.push_back(static_cast<std::int32_t>(known ? i : -1 - row));
        expected.push_back(static_cast<std::int32_t>(known                         ? i
                                                     : row == rows || row % 7 == 3 ? 0
                                                                                   : 10 * row));
      }
      const auto device_tokens = on_device(tokens);
      const auto device_ranked = on_device(ranked);
      take_tokens(device_tokens.as<std::int32_t>(), m, device_ranked.as<RankedToken>(), rows, count,
                  stream.get());
      stream.synchronize();
      EXPECT_EQ(device_tokens.values<std::int32_t>(), expected) << m << " of " << count;
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cuda
