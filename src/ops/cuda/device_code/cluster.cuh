#pragma once

#include <cstdint>

#include <cuda_runtime.h>

/// Thread block clusters (sm_90 and later; before, every block is a cluster of its own).
namespace nibble::ops::cuda {

__device__ __forceinline__ int cluster_size() {
#if __CUDA_ARCH__ >= 900
  std::uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return static_cast<int>(size);
#else
  return 1;
#endif
}

__device__ __forceinline__ int cluster_rank() {
#if __CUDA_ARCH__ >= 900
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}

/// All threads of all blocks of the cluster meet; what they wrote to shared memory can be read.
__device__ __forceinline__ void cluster_barrier() {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
#else
  __syncthreads();
#endif
}

/// Reads what stands at `pointer` in the shared memory of the block of rank `rank`.
__device__ __forceinline__ float load_of_rank(const float* pointer, int rank) {
#if __CUDA_ARCH__ >= 900
  const auto own = static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
  float value;
  asm volatile(
      "{\n"
      ".reg .u32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [there];\n"
      "}"
      : "=f"(value)
      : "r"(own), "r"(rank)
      : "memory");
  return value;
#else
  return *pointer;
#endif
}

}  // namespace nibble::ops::cuda
