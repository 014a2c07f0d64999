#pragma once

#include "core/threads.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/sparse/sparse_layout.h"
#include "ops/linear_kernel.h"

namespace nibble::ops::cuda {

/// Why weights of this scheme with k inputs do not fit the layout of sparse_layout.h.
Refusal sparse_layout_refusal(const formats::Scheme& scheme, std::int64_t k);

/// Thread blocks and warps for n rows on a device of so many multiprocessors.
SparsePlan sparse_plan(std::int64_t n, int multiprocessors);

/// Valid block-sparse rows in the layout of sparse_layout.h. Throws kUsage where they do not fit
/// it.
PackedSparse pack_sparse(const UnitRows& rows, const SparsePlan& plan, core::ThreadPool& pool);

}  // namespace nibble::ops::cuda
