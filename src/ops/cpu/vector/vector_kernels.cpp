#include "ops/cpu/vector/vector_kernels.h"

#include "ops/cpu/cpu_features.h"

namespace nibble::ops::cpu {

const VectorKernels& vector_kernels() {
#if defined(__x86_64__)
  if (cpu_features().avx512) {
    return vector_kernels_avx512();
  }
  if (cpu_features().avx2) {
    return vector_kernels_avx2();
  }
#endif
  return vector_kernels_baseline();
}

}  // namespace nibble::ops::cpu
