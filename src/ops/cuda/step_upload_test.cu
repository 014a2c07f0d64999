#include <algorithm>
#include <numeric>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/step_upload.h"

namespace nibble::ops::cuda {
namespace {

using CudaStepUpload = device::GpuTest;

__global__ void busy_kernel(long long cycles) {
  launch_dependents();
  wait_for_predecessor();
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

// Reads before it waits, as attention reads its plan.
__global__ void early_kernel(const int* x, int* y) {
  const int value = x[threadIdx.x];
  wait_for_predecessor();
  y[threadIdx.x] = value;
}

TEST_F(CudaStepUpload, BringsEveryRunAndNothingElse) {
  constexpr std::int64_t kRuns = 30;
  constexpr std::int64_t kApart = 1 << 16;
  const device::cuda::Stream stream;
  const device::cuda::PinnedBuffer host(kRuns * kApart);
  std::iota(host.as<std::uint32_t>(), host.as<std::uint32_t>() + host.bytes() / 4, 1u);
  const auto device = poisoned<std::byte>(host.bytes());
  StepUpload upload;
  upload.begin();
  const auto bytes_of = [](std::int64_t run) { return run * run * run * 2; };
  for (std::int64_t run = 0; run < kRuns; ++run) {
    upload.add(host.data() + run * kApart, device.data() + run * kApart, bytes_of(run));
  }
  upload.start(stream.get());
  stream.synchronize();
  const auto got = device.values<std::byte>();
  for (std::int64_t run = 0; run < kRuns; ++run) {
    const auto at = static_cast<std::size_t>(run * kApart);
    const auto bytes = static_cast<std::size_t>(bytes_of(run));
    const std::size_t end = (bytes + 15) / 16 * 16;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kApart); ++i) {
      if (i < bytes || i >= end) {
        ASSERT_EQ(got[at + i], i < bytes ? host.data()[at + i] : std::byte{0xff})
            << "run " << run << ", byte " << i;
      }
    }
  }
}

TEST_F(CudaStepUpload, KernelsThatStartEarlyFindWhatItBrought) {
  constexpr int kValues = 512;
  const device::cuda::Stream stream;
  const device::cuda::PinnedBuffer host(kValues * sizeof(int));
  const auto x = poisoned<int>(kValues);
  const auto y = poisoned<int>(kValues);
  StepUpload upload;
  for (int round = 0; round < 200; ++round) {
    upload.begin();
    std::iota(host.as<int>(), host.as<int>() + kValues, round);
    upload.add(host.data(), x.data(), host.bytes());
    upload.start(stream.get());
    launch_dependent(busy_kernel, dim3(1), dim3(32), 0, stream.get(), 20'000LL);
    launch_dependent(early_kernel, dim3(1), dim3(kValues), 0, stream.get(), x.as<const int>(),
                     y.as<int>());
    stream.synchronize();
    std::vector<int> expected(kValues);
    std::iota(expected.begin(), expected.end(), round);
    ASSERT_EQ(y.values<int>(), expected) << round;
  }
}

TEST_F(CudaStepUpload, BeginsWhenTheLastRunsHaveBeenRead) {
  const device::cuda::Stream stream;
  const device::cuda::PinnedBuffer host(StepUpload::kAlignment);
  const auto device = poisoned<int>(StepUpload::kAlignment / sizeof(int));
  int& number = *host.as<int>();
  StepUpload upload;
  upload.begin();
  number = 5;
  busy_kernel<<<1, 1, 0, stream.get()>>>(20'000'000LL);  // about 10 ms
  upload.add(host.data(), device.data(), sizeof(int));
  upload.start(stream.get());
  upload.begin();
  number = 6;
  stream.synchronize();
  EXPECT_EQ(device.values<int>().front(), 5);
}

TEST_F(CudaStepUpload, TakesTokensOfRowsAndKnownOnesStay) {
  constexpr std::int64_t kBehind = 6;  // numbers that are no tokens
  const device::cuda::Stream stream;
  for (const std::int64_t ranks : {1, 64}) {
    for (const std::int64_t m : {1, 3, 257, 1000}) {
      const std::int64_t rows = m / 2 + 1;
      // Behind the rows, too, lie tokens, which nobody must take.
      std::vector<RankedToken> ranked(static_cast<std::size_t>((rows + 1) * ranks), {9999, 0.0f});
      for (std::int64_t row = 0; row < rows; ++row) {
        ranked[static_cast<std::size_t>(row * ranks)].id =
            row % 7 == 3 ? -1 : static_cast<std::int32_t>(10 * row);
      }
      const device::cuda::PinnedBuffer host((m + kBehind + 3) / 4 * StepUpload::kAlignment);
      auto* const given = host.as<std::int32_t>();
      std::fill_n(given, host.bytes() / 4, -1);
      std::vector<std::int32_t> expected(static_cast<std::size_t>(host.bytes() / 4), -1);
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t row = (i * 5 + 1) % (rows + 1);  // the last is none
        const bool known = i % 3 == 1;
        given[i] = static_cast<std::int32_t>(known ? i : -1 - row);
        expected[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>(known                         ? i
                                      : row == rows || row % 7 == 3 ? 0
                                                                    : 10 * row);
      }
      const auto tokens = poisoned<std::int32_t>(host.bytes() / 4);
      const auto device_ranked = on_device(ranked);
      StepUpload upload;
      upload.begin();
      upload.add(host.data(), tokens.data(), host.bytes());
      upload.start(stream.get(), {tokens.as<std::int32_t>(), m,
                                  device_ranked.as<const RankedToken>(), rows, ranks});
      stream.synchronize();
      EXPECT_EQ(tokens.values<std::int32_t>(), expected) << m << " of " << ranks;
    }
  }
}

TEST_F(CudaStepUpload, RefusesWhatLiesBetweenItsUnits) {
  const device::cuda::PinnedBuffer host(64);
  const device::cuda::Buffer device(64);
  StepUpload upload;
  EXPECT_THROW(upload.add(host.data() + 4, device.data(), 4), std::runtime_error);
  EXPECT_THROW(upload.add(host.data(), device.data() + 8, 4), std::runtime_error);
}

}  // namespace
}  // namespace nibble::ops::cuda
