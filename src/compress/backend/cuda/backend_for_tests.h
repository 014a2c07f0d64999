#pragma once

#include <optional>

#include "compress/backend/backend.h"
#include "device/cuda/check.h"
#include "device/cuda/gpu_for_tests.h"
#include "device/cuda/memory.h"

namespace nibble::compress {

/// A backend with a GPU beside one without.
class GpuBackendTest : public device::GpuTest {
 protected:
  void SetUp() override {
    device::GpuTest::SetUp();
    if (!IsSkipped()) {
      poison();
      gpu_.emplace(make_cuda_backend(0, pool_));
    }
  }

  core::ThreadPool pool_{2};
  Backend cpu_{pool_};
  std::optional<Backend> gpu_;

 private:
  // What a kernel does not write shall be seen: memory that is allocated from here on holds NaN.
  static void poison() {
    const device::cuda::Buffer memory(std::int64_t{1} << 30);
    device::cuda::check(cudaMemset(memory.data(), 0xff, std::size_t{1} << 30), "cudaMemset");
  }
};

}  // namespace nibble::compress
