#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cuda/linear/linear_kernel.h"
#include "ops/cuda/linear/wide_rows.h"

namespace nibble::ops::cuda {

/// A layer whose weights widen() makes float16.
struct WideProduct {
  LtProducts* products = nullptr;
  std::int64_t n = 0;
  std::int64_t k = 0;
  core::Fp16* values = nullptr;  // [rows_at_once(n, k)][k]
};

/// The product of `rows` widened rows from `first` on.
void multiply_wide_rows(const WideProduct& layer, std::int64_t first, std::int64_t rows,
                        const core::Fp16* x, std::int64_t m, const GemmOutput& output,
                        cudaStream_t stream);

/// y = x W^T + bias of m tokens, float16 [m][padded_columns(k)]: widen(first row, rows) writes so
/// many rows to `values`, and cuBLASLt multiplies them. Results are float32.
template <typename Widen>
void multiply_wide(const WideProduct& layer, const core::Fp16* x, std::int64_t m,
                   const GemmOutput& output, cudaStream_t stream, const Widen& widen) {
  const std::int64_t step = rows_at_once(layer.n, layer.k);
  for (std::int64_t row = 0; row < layer.n; row += step) {
    const std::int64_t rows = std::min(step, layer.n - row);
    widen(row, rows);
    multiply_wide_rows(layer, row, rows, x, m, output, stream);
  }
}

}  // namespace nibble::ops::cuda
