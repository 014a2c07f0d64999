#include "ops/cpu/attention/codes/code_kernels.h"

#include <vector>

#include "ops/cpu/architecture/architecture.h"

namespace nibble::ops::cpu {

std::span<const CodeKernels* const> all_code_kernels() {
  static const std::vector<const CodeKernels*> all = [] {
    std::vector<const CodeKernels*> found = {&code_kernels_plain()};
    for (const CodeKernels* kernels : architecture_code_kernels()) {
      found.push_back(kernels);
    }
    return found;
  }();
  return all;
}

const CodeKernels& code_kernels() {
  static const CodeKernels& best = [&]() -> const CodeKernels& {
    const CodeKernels* found = nullptr;
    for (const CodeKernels* kernels : all_code_kernels()) {
      found = kernels->runs_here() ? kernels : found;
    }
    return *found;
  }();
  return best;
}

}  // namespace nibble::ops::cpu
