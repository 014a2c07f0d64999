#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

/// Copies by the copy engine (sm_90 and later). Those into shared memory let their bytes arrive on
/// a barrier (barrier.cuh). Those out of it read what was written before fence_before_copies(), and
/// the thread that began them waits until they have read it; the end of the kernel waits for the
/// rest.
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

/// Writes a box of `map` that begins at (column, row), but for what lies outside of the matrix.
__device__ __forceinline__ void put_box(const CUtensorMap& map, int column, int row,
                                        std::uint32_t source) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(column), "r"(row), "r"(source)
      : "memory");
}

/// The same, added to what is there.
__device__ __forceinline__ void add_box(const CUtensorMap& map, int column, int row,
                                        std::uint32_t source) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
      "[%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(column), "r"(row), "r"(source)
      : "memory");
}

/// Closes a group of copies out of shared memory.
__device__ __forceinline__ void commit_boxes() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Waits until at most kPending groups of this thread have not yet read all of their memory.
template <int kPending>
__device__ __forceinline__ void wait_until_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

#endif

}  // namespace nibble::ops::cuda
