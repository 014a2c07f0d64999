#include <asm/hwcap.h>
#include <sys/auxv.h>

#include "ops/cpu/architecture/architecture.h"

// Linux tells programs in the auxiliary vector what the CPU has (Documentation/arm64/elf_hwcaps).
namespace nibble::ops::cpu {

CpuFeatures detect_cpu_features() {
  CpuFeatures features;
  features.dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  features.i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  return features;
}

std::vector<Variant> architecture_variants() {
  return {neon_dotprod_variant(), neon_i8mm_variant()};
}

std::vector<SparseKernel> architecture_sparse_kernels() {
  return {};
}

std::vector<const CodeKernels*> architecture_code_kernels() {
  return {&code_kernels_neon()};
}

const FloatTiles* architecture_float_tiles() {
  return nullptr;
}

const AttentionTiles* architecture_attention_tiles() {
  return nullptr;
}

/// NEON is part of every 64-bit ARM.
std::vector<const VectorKernels*> architecture_vector_kernels() {
  return {&vector_kernels_neon()};
}

}  // namespace nibble::ops::cpu
