#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {

const VectorKernels& vector_kernels() {
#if defined(__x86_64__)
  static const VectorKernels& best = [&]() -> const VectorKernels& {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") != 0) {
      return vector_kernels_avx512();
    }
    if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
        __builtin_cpu_supports("f16c") != 0) {
      return vector_kernels_avx2();
    }
    return vector_kernels_baseline();
  }();
  return best;
#else
  return vector_kernels_baseline();
#endif
}

}  // namespace nibble::ops::cpu
