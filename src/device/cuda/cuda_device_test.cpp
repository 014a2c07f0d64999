#include <array>
#include <numeric>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/event.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/shared_library.h"
#include "device/cuda/stream.h"

namespace nibble::device::cuda {
namespace {

TEST(CudaCheck, NamesTheCallAndThePlace) {
  try {
    check(cudaErrorInvalidValue, "cudaThatCall");
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kFailed);
    const std::string message = error.what();
    EXPECT_NE(message.find("cudaThatCall at cuda_device_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("invalid argument"), std::string::npos) << message;
  }
}

TEST(CudaCheck, TellsMemoryFromOtherErrors) {
  try {
    check(cudaErrorMemoryAllocation, "cudaMalloc");
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kOutOfMemory);
  }
}

TEST(CudaDevices, WithoutOneTheReasonIsGiven) {
  if (!cuda_devices().empty()) {
    GTEST_SKIP() << "there is a GPU";
  }
  try {
    require_cuda_device();
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("use --device cpu"), std::string::npos);
  }
}

TEST(CudaSharedLibrary, SaysWhichOneIsMissingAndWhy) {
  constexpr std::array<const char*, 2> kNames = {"libnibble-none.so.2", "libnibble-none.so.1"};
  try {
    const SharedLibrary library("cuNone", kNames);
    FAIL() << "nothing was thrown";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kUsage);
    const std::string message = error.what();
    EXPECT_NE(message.find("cuNone cannot be opened (libnibble-none.so.2"), std::string::npos)
        << message;
    EXPECT_NE(message.find("use --device cpu"), std::string::npos) << message;
  }
}

TEST(CudaSharedLibrary, TakesTheFirstThatIsThere) {
  constexpr std::array<const char*, 2> kNames = {"libnibble-none.so.2", "libm.so.6"};
  const SharedLibrary library("mathematics", kNames);
  EXPECT_EQ(library.function<double(double)>("floor")(2.5), 2.0);
  EXPECT_THROW(library.function<void()>("nibble_none"), core::Error);
}

using CudaMemory = GpuTest;

TEST_F(CudaMemory, CopiesThereAndBack) {
  std::vector<int> values(12'345);
  std::iota(values.begin(), values.end(), -7);
  const Buffer buffer = Buffer::of<int>(values);
  EXPECT_EQ(buffer.values<int>(), values);
}

TEST_F(CudaMemory, WhatDoesNotFitIsSaid) {
  try {
    const Buffer buffer(std::int64_t{1} << 46);
    FAIL() << "64 TiB were found";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.kind(), core::ErrorKind::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("70368.74 GB are needed"), std::string::npos)
        << error.what();
  }
  const Buffer small(1 << 20);  // the error does not stay
  EXPECT_FALSE(small.empty());
}

using CudaGraph = GpuTest;

TEST_F(CudaGraph, RunsWhatWasRecordedEachTimeItIsLaunched) {
  Stream stream;
  const Buffer a = Buffer::of<int>(std::vector<int>{1, 2, 3});
  const Buffer b(a.bytes());
  const Graph graph = Graph::record(stream.get(), [&] {
    check(cudaMemcpyAsync(b.data(), a.data(), static_cast<std::size_t>(a.bytes()),
                          cudaMemcpyDeviceToDevice, stream.get()),
          "cudaMemcpyAsync");
  });
  for (int round = 0; round < 2; ++round) {
    check(cudaMemset(b.data(), 0xff, static_cast<std::size_t>(b.bytes())), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    graph.launch(stream.get());
    stream.synchronize();
    EXPECT_EQ(b.values<int>(), (std::vector<int>{1, 2, 3}));
  }
}

TEST_F(CudaGraph, AnErrorWhileRecordingLeavesTheStreamUsable) {
  Stream stream;
  EXPECT_THROW(Graph::record(stream.get(), [] { core::fail(core::ErrorKind::kFailed, "no"); }),
               core::Error);
  const Buffer a = Buffer::of<int>(std::vector<int>{5});
  check(cudaMemsetAsync(a.data(), 0, sizeof(int), stream.get()), "cudaMemsetAsync");
  stream.synchronize();
  EXPECT_EQ(a.values<int>(), std::vector<int>{0});
}

}  // namespace
}  // namespace nibble::device::cuda
