#include "ops/cpu/architecture/architecture.h"

// Processors for which there is nothing but the portable kernels.
namespace nibble::ops::cpu {

CpuFeatures detect_cpu_features() {
  return {};
}

std::vector<Variant> architecture_variants() {
  return {};
}

std::vector<SparseKernel> architecture_sparse_kernels() {
  return {};
}

std::vector<const CodeKernels*> architecture_code_kernels() {
  return {};
}

const FloatTiles* architecture_float_tiles() {
  return nullptr;
}

const AttentionTiles* architecture_attention_tiles() {
  return nullptr;
}

std::vector<const VectorKernels*> architecture_vector_kernels() {
  return {};
}

}  // namespace nibble::ops::cpu
