#pragma once

namespace nibble::ops::cuda {

/// Adds to what stands there without waiting for it.
__device__ __forceinline__ void add_in_memory(float* to, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

}  // namespace nibble::ops::cuda
