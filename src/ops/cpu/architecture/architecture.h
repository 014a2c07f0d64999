#pragma once

#include <vector>

#include "ops/cpu/attention/codes/code_kernels.h"
#include "ops/cpu/attention/tiles/attention_tiles.h"
#include "ops/cpu/cpu_features.h"
#include "ops/cpu/dense/float_tiles.h"
#include "ops/cpu/packed/variants.h"
#include "ops/cpu/sparse/sparse_kernel.h"
#include "ops/cpu/vector/vector_kernels.h"

/// What one processor family brings beside the portable kernels. Each file of this folder defines
/// these functions for its family; the build takes the file of the processor that it builds for
/// (src/ops/CMakeLists.txt).
namespace nibble::ops::cpu {

/// What the CPU can do and the operating system has enabled.
CpuFeatures detect_cpu_features();

/// The family's variants, slowest first, whether they run here or not.
std::vector<Variant> architecture_variants();

/// The family's kernels of block-sparse rows, slowest first, whether they run here or not.
std::vector<SparseKernel> architecture_sparse_kernels();

/// The family's products with codes of keys and values, slowest first, whether they run here or
/// not.
std::vector<const CodeKernels*> architecture_code_kernels();

/// The family's loops of float layers on tile registers, whether they run here or not; null: it has
/// none.
const FloatTiles* architecture_float_tiles();

/// The family's loops of attention in tile registers, whether they run here or not; null: it has
/// none.
const AttentionTiles* architecture_attention_tiles();

/// The family's vector kernels that run here, slowest first.
std::vector<const VectorKernels*> architecture_vector_kernels();

}  // namespace nibble::ops::cpu
