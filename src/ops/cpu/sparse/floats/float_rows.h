#pragma once

#include <cstdint>
#include <span>

#include "core/threads.h"
#include "formats/packed_weight.h"
#include "ops/cpu/linear/linear_kernel.h"

/// Products of block-sparse rows of float16 (f16-g16-bsr), read as they are stored.
namespace nibble::ops::cpu {

/// Tokens up to which the kept groups are read as they are stored.
inline constexpr std::int64_t kFewGroupedRows = 16;

/// A copy on huge pages. The groups of each row stand in the order in which the kernels of this
/// machine are fastest: those of even and odd registers in turn (VectorKernels::multiply_groups).
formats::PackedWeight in_order_of_sums(const formats::PackedWeight& weight);

/// y [m, n_0 + n_1 + ...] = x [m, k] W^T in float32, of block-sparse rows of float16 that stand
/// side by side; rows ldy apart. The very numbers of dense_linear() for the weights with their
/// zeros, where x is finite. Tasks have rows with about equally many kept groups.
void float_rows_linear(const float* x, std::int64_t m, std::int64_t ldx,
                       std::span<const formats::PackedWeight* const> weights, float* y,
                       std::int64_t ldy, core::ThreadPool& pool);

/// The entry of the table of kernels, "sparse-f16".
LinearKernel float_rows_kernel();

}  // namespace nibble::ops::cpu
