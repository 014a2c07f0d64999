#pragma once

#include <cstdint>

#include <cuda_runtime.h>

/// Barriers in shared memory on which asynchronous copies and threads arrive (PTX ISA, mbarrier).
/// From sm_90 on; the addresses are those of shared memory, 32 bits.
namespace nibble::ops::cuda {

/// The 32-bit address of something in this block's shared memory.
__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

#if __CUDA_ARCH__ >= 900

/// A phase of `barrier` ends when `arrivals` arrivals and all the bytes that were announced are
/// there.
__device__ __forceinline__ void init_barrier(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/// Makes initialised barriers visible to the cluster and to the copy engine.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Orders what this thread wrote to shared memory before bulk copies to the same place that begin
/// later.
__device__ __forceinline__ void fence_before_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Arrives, and announces `bytes` that copies will bring in this phase.
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// All bits that are set in some word of `value`, whose size is a multiple of 4.
template <typename Value>
__device__ __forceinline__ std::uint32_t bits_of_any(const Value& value) {
  std::uint32_t words[sizeof(Value) / 4];
  memcpy(words, &value, sizeof(Value));
  std::uint32_t bits = 0;
#pragma unroll
  for (const std::uint32_t word : words) {
    bits |= word;
  }
  return bits;
}

/// 0, which the compiler does not know to be 0: `count` is any number from 0 on.
__device__ __forceinline__ std::uint32_t unknown_zero(int count) {
  return static_cast<std::uint32_t>(count >> 31);
}

/// `barrier`, which is known when the loads of this warp from shared memory have ended that `read`
/// (bits_of_any()) was computed from: an arrival there lets a copy take their place. Such loads
/// wait behind stores of other warps, and an arrival overtakes them: on an H200 they were seen to
/// read what the next copy had written. `count`: see unknown_zero().
__device__ __forceinline__ std::uint32_t after_reads(std::uint32_t barrier, std::uint32_t read,
                                                     int count) {
  return barrier + (read & unknown_zero(count));
}

/// Arrives at the barrier at the same place in block `rank` of the cluster. Orders what this block
/// did before, but not its writes to global memory (a release at the scope of a cluster would wait
/// for them).
__device__ __forceinline__ void arrive_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{ .reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// The same after writes to shared memory of the cluster, which wait_barrier_of_cluster() sees.
__device__ __forceinline__ void arrive_after_writes_at(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{ .reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote]; }" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

/// Arrives when all cp.async of this thread so far have ended; counts as one of the arrivals.
__device__ __forceinline__ void arrive_after_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Waits until the phase of that parity has ended.
__device__ __forceinline__ void wait_barrier(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ended;\n"
      "bra again;\n"
      "ended: }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// The same, of all lanes of a warp together, after which the compiler knows that they still are;
/// writes of other blocks of the cluster, before they arrived, can be read then.
__device__ __forceinline__ void wait_barrier_of_cluster(std::uint32_t barrier,
                                                        std::uint32_t parity) {
  asm volatile(
      "{ .reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "vote.sync.all.pred done, done, 0xffffffff;\n"
      "@done bra.uni ended;\n"
      "bra.uni again;\n"
      "ended: }" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

#endif

}  // namespace nibble::ops::cuda
