#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "ops/cuda/attention/kv_layout.h"

/// What launches of attention on tensor cores share: the kernel for a layout, and a grid that is
/// all resident.
namespace nibble::ops::cuda {

/// Calls work.operator()<K, V, D>() with the types and the head size of a layout in fragments.
template <typename Work>
void with_fragments(const KvLayout& layout, const Work& work) {
  const auto with_dim = [&]<KvType K, KvType V>() {
    layout.head_dim == 64 ? work.template operator()<K, V, 64>()
                          : work.template operator()<K, V, 128>();
  };
  const auto with_values = [&]<KvType K>() {
    switch (layout.types.values) {
      case KvType::kF16:
        return with_dim.template operator()<K, KvType::kF16>();
      case KvType::kInt8:
        return with_dim.template operator()<K, KvType::kInt8>();
      default:
        return with_dim.template operator()<K, KvType::kInt4>();
    }
  };
  switch (layout.types.keys) {
    case KvType::kFp8:  // of both: KvTypes::go_together
      return with_dim.template operator()<KvType::kFp8, KvType::kFp8>();
    case KvType::kF16:
      return with_values.template operator()<KvType::kF16>();
    case KvType::kInt8:
      return with_values.template operator()<KvType::kInt8>();
    default:
      return with_values.template operator()<KvType::kInt4>();
  }
}

/// Multiprocessors of the current device.
inline int multiprocessors() {
  static const int count = [] {
    int device = 0;
    int value = 0;
    device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
    device::cuda::check(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, device),
                        "cudaDeviceGetAttribute");
    return value;
  }();
  return count;
}

/// Blocks of `kernel` that the device holds at a time, with so much dynamic shared memory, which it
/// is allowed from here on. Asks the driver: once for each kernel is enough.
template <typename Kernel>
int resident_blocks(Kernel* kernel, int threads, int shared_bytes) {
  // Beside what is static, even a little may be more than is always allowed.
  device::cuda::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
      "cudaFuncSetAttribute");
  int blocks = 0;
  device::cuda::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                          &blocks, kernel, threads, static_cast<std::size_t>(shared_bytes)),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return blocks * multiprocessors();
}

}  // namespace nibble::ops::cuda
