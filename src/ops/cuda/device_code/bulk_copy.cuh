#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

/// Copies by the copy engine from global into shared memory (sm_90 and later). Their bytes arrive
/// on a barrier (barrier.cuh).
namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// Copies `bytes` that lie together; addresses and count are multiples of 16.
__device__ __forceinline__ void copy_bytes(std::uint32_t target, const void* source,
                                           std::uint32_t bytes, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(target),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Copies the box of `map` that begins at (column, row). What lies outside of the matrix becomes 0,
/// and counts among the bytes.
__device__ __forceinline__ void copy_box(std::uint32_t target, const CUtensorMap& map, int column,
                                         int row, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

/// The same into every block of the cluster whose bit of `blocks` is set: to the same place, with
/// the bytes arriving on the barrier at the same place.
__device__ __forceinline__ void copy_box_to(std::uint32_t target, const CUtensorMap& map,
                                            int column, int row, std::uint32_t barrier,
                                            std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(target),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

#endif

}  // namespace nibble::ops::cuda
