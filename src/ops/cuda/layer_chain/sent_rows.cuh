#pragma once

#include <cstdint>

#include "ops/cuda/device_code/reduce.cuh"

/// Numbers that blocks send to each other within a kernel: the lowest bit is the run's.
namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

__device__ __forceinline__ float4 read_sent(const float4* from) {
  float4 v;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(from)
               : "memory");
  return v;
}
__device__ __forceinline__ float2 read_sent(const float2* from) {
  float2 v;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
               : "=f"(v.x), "=f"(v.y)
               : "l"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ std::uint32_t word_of_run(float value, std::uint32_t run) {
  return (__float_as_uint(value) & ~1u) | (run & 1u);
}
__device__ __forceinline__ void send(float* to, float value, std::uint32_t run) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word_of_run(value, run))
               : "memory");
}
__device__ __forceinline__ void send(float2* to, float2 v, std::uint32_t run) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(word_of_run(v.x, run)),
               "r"(word_of_run(v.y, run))
               : "memory");
}
__device__ __forceinline__ void send(float4* to, float4 v, std::uint32_t run) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
               "r"(word_of_run(v.x, run)), "r"(word_of_run(v.y, run)), "r"(word_of_run(v.z, run)),
               "r"(word_of_run(v.w, run))
               : "memory");
}

__device__ __forceinline__ std::uint32_t differs_from_run(float4 v, std::uint32_t run) {
  return (__float_as_uint(v.x) ^ run) | (__float_as_uint(v.y) ^ run) |
         (__float_as_uint(v.z) ^ run) | (__float_as_uint(v.w) ^ run);
}
__device__ __forceinline__ std::uint32_t differs_from_run(float2 v, std::uint32_t run) {
  return (__float_as_uint(v.x) ^ run) | (__float_as_uint(v.y) ^ run);
}
/// Whether all numbers are of the run.
__device__ __forceinline__ bool is_of_run(float4 v, std::uint32_t run) {
  return (differs_from_run(v, run) & 1u) == 0;
}
template <typename Numbers>
__device__ __forceinline__ bool is_of_run(float4 a, Numbers b, std::uint32_t run) {
  return ((differs_from_run(a, run) | differs_from_run(b, run)) & 1u) == 0;
}

__device__ __forceinline__ float without_run(float value) {
  return __uint_as_float(__float_as_uint(value) & ~1u);
}
__device__ __forceinline__ float4 without_run(float4 v) {
  return {without_run(v.x), without_run(v.y), without_run(v.z), without_run(v.w)};
}
__device__ __forceinline__ float2 without_run(float2 v) {
  return {without_run(v.x), without_run(v.y)};
}

/// Ends the kernel with an error, in the place of a process that never ends: after ten seconds and
/// more of reads.
__device__ __forceinline__ void end_if_hopeless(int tries) {
  constexpr int kMostTries = 1 << 25;
  if (tries == kMostTries) {
    __trap();
  }
}

/// Reads numbers until those of the run are there: `read()` reads them, `are_there()` says so; by a
/// warp.
template <typename Read, typename AreThere>
__device__ __forceinline__ void await_sent(const Read& read, const AreThere& are_there) {
  for (int tries = 0; !__all_sync(kAllLanes, are_there()); ++tries) {
    end_if_hopeless(tries);
    read();
  }
}

#endif

}  // namespace nibble::ops::cuda
