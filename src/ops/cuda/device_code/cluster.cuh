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

#if __CUDA_ARCH__ >= 900

/// The two halves of a barrier that says only that all blocks of the cluster have come this far.
/// Who waits need not be all who arrived.
__device__ __forceinline__ void arrive_at_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address, among those of the cluster, of the same place of shared memory in block `rank`.
__device__ __forceinline__ std::uint32_t address_in(std::uint32_t address, int rank) {
  std::uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

__device__ __forceinline__ void store_in_cluster(std::uint32_t remote, std::uint32_t word) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(word) : "memory");
}

#endif

}  // namespace nibble::ops::cuda
