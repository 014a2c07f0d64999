#pragma once

#include <cuda_runtime.h>

#include "device/cuda/check.h"

namespace nibble::ops::cuda {

/// Whether `kernel`, whose code is for sm_90a only, does anything on this device: elsewhere, and in
/// builds without that architecture, it is empty. Asks no stream, so that it may be done while work
/// is recorded.
template <typename Kernel>
bool runs_for_sm90a(Kernel* kernel) {
  constexpr int kRegistersOfNothing = 40;
  int device = 0;
  int major = 0;
  int minor = 0;
  cudaFuncAttributes attributes{};
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  device::cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                      "cudaDeviceGetAttribute");
  device::cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                      "cudaDeviceGetAttribute");
  device::cuda::check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return major == 9 && minor == 0 && attributes.numRegs > kRegistersOfNothing;
}

}  // namespace nibble::ops::cuda
