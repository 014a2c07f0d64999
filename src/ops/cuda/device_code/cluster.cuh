#pragma once

#include <cstdint>

#include <cuda_runtime.h>

/// Thread block clusters (sm_90 and later; before, every block is a cluster of its own).
namespace nibble::ops::cuda {

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

}  // namespace nibble::ops::cuda
