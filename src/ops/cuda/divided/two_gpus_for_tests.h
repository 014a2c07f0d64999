#pragma once

#include <string>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/nccl.h"
#include "device/cuda_devices.h"
#include "ranks/two_processes_for_tests.h"

namespace nibble::ops::cuda {

/// Tests that need two GPUs and NCCL, a process for each; skipped where something is missing.
class TwoGpus : public ranks::TwoProcesses {
 protected:
  void SetUp() override {
    if (device::cuda_device_count() < 2) {
      GTEST_SKIP() << "there are not two NVIDIA GPUs";
    }
    try {
      (void)device::cuda::nccl_version();
    } catch (const core::Error& error) {
      GTEST_SKIP() << error.what();
    }
    device::cuda::check(cudaSetDevice(leads() ? 0 : 1), "cudaSetDevice");
  }
};

}  // namespace nibble::ops::cuda
