#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "ops/cuda/elementwise/elementwise.h"

/// input() (elementwise.h) of many rows of float16 that become codes: a warp for each row
/// (warp_rows.cuh).
namespace nibble::ops::cuda {

/// Whether it serves `m` such rows.
bool serves_code_rows(const MatrixView& x, const InputTarget& target, std::int64_t m,
                      std::int64_t columns);

/// As input(), of what it serves.
void code_rows(const MatrixView& x, const InputTarget& target, std::int64_t m, std::int64_t columns,
               cudaStream_t stream);

}  // namespace nibble::ops::cuda
