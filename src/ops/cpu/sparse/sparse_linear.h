#pragma once

#include <cstdint>
#include <span>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/linear/linear_kernel.h"
#include "ops/cpu/sparse/sparse_kernel.h"
#include "ops/cpu/sparse/sparse_streams.h"

namespace nibble::ops::cpu {

/// How block-sparse rows want their input: INT8, with a scale for each group where the scheme
/// leaves activations in float.
InputNeeds sparse_needs(const formats::PackedWeight& weight);

/// y [m, n_0 + n_1 + ...] = x W^T of block-sparse rows that stand side by side, with equal needs;
/// rows ldy apart. Tasks have rows with about equally many units. `input` by sparse_needs().
void sparse_linear(const SparseKernel& kernel, std::span<const SparseStreams* const> weights,
                   const QuantizedInput& input, float* y, std::int64_t ldy, core::ThreadPool& pool);

/// The entry of the table of kernels, "sparse-avx2".
LinearKernel sparse_kernel(const SparseKernel& kernel);

}  // namespace nibble::ops::cpu
