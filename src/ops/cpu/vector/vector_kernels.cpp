#include "ops/cpu/vector/vector_kernels.h"

#include <vector>

#include "ops/cpu/architecture/architecture.h"

namespace nibble::ops::cpu {

std::span<const VectorKernels* const> runnable_vector_kernels() {
  static const std::vector<const VectorKernels*> all = [] {
    std::vector<const VectorKernels*> found = {&vector_kernels_baseline()};
    for (const VectorKernels* kernels : architecture_vector_kernels()) {
      found.push_back(kernels);
    }
    return found;
  }();
  return all;
}

const VectorKernels& vector_kernels() {
  static const VectorKernels& best = *runnable_vector_kernels().back();
  return best;
}

}  // namespace nibble::ops::cpu
