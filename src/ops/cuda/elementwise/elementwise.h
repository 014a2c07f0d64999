#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "core/dtype.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/elementwise/matrix_view.h"
#include "ops/layer_kinds.h"

/// The operators of ops.h that work on rows. All pointers are of the device. Matrices are what
/// matrix_view.h says, float32 where a pointer stands. They compute in float32. Nothing waits or
/// allocates, and the bits of a row do not depend on the other rows. Rows have at most kMaxColumns
/// columns (kUsage otherwise).
namespace nibble::ops::cuda {

inline constexpr std::int64_t kMaxColumns = 65536;

/// A norm's parameters on the device.
struct NormWeights {
  NormKind kind = NormKind::kRms;
  const float* weight = nullptr;  // [columns]
  const float* bias = nullptr;    // [columns] or null; LayerNorm only
  float eps = 1e-5f;
};

/// Rows of an embedding table [rows, columns] in float32, float16 or bfloat16.
struct EmbeddingTable {
  const void* data = nullptr;
  core::DType type = core::DType::kF16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// x[i] = table[ids[i] + offset], x [m, columns]. A row whose index lies outside the table becomes
/// NaN.
void embed(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t offset,
           const MutableMatrixView& x, std::int64_t m, cudaStream_t stream);
/// x[i] = table[ids[i] - first] where that is a row of the table, and 0 elsewhere.
void embed_part(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t first, float* x,
                std::int64_t m, cudaStream_t stream);
/// x[i] += table[ids[i] + offset].
void add_rows(const EmbeddingTable& table, const std::int32_t* ids, std::int64_t offset,
              const MutableMatrixView& x, std::int64_t m, cudaStream_t stream);

/// x += delta, both of `count` elements and of one type.
void add(const MutableMatrixView& x, const MatrixView& delta, std::int64_t count,
         cudaStream_t stream);
/// y[i, column + j] += bias[j] for j < n; y [m, columns].
void add_bias(float* y, const float* bias, std::int64_t m, std::int64_t columns,
              std::int64_t column, std::int64_t n, cudaStream_t stream);
void zeros(float* x, std::int64_t count, cudaStream_t stream);

/// y[i] = x[rows[i]]; x [x_rows, columns], y [m, columns]. A row outside of x becomes NaN.
void gather(const MatrixView& x, std::int64_t x_rows, std::int64_t columns,
            const std::int32_t* rows, float* y, std::int64_t m, cudaStream_t stream);
/// sum[rows[i]] += weights[i] * x[i]; no row may appear twice. Rows outside of `sum` are left out.
void scatter_add(float* sum, std::int64_t sum_rows, std::int64_t columns, const float* x,
                 const std::int32_t* rows, const float* weights, std::int64_t m,
                 cudaStream_t stream);

/// y = norm(x).
void norm_matrix(const MatrixView& x, const NormWeights& norm, const MutableMatrixView& y,
                 std::int64_t m, std::int64_t columns, cudaStream_t stream);
/// norm(x), made ready for linear layers.
void norm(const MatrixView& x, const NormWeights& norm, const InputTarget& target, std::int64_t m,
          std::int64_t columns, cudaStream_t stream);
/// x += delta, then norm(x).
void add_norm(const MutableMatrixView& x, const MatrixView& delta, const NormWeights& norm,
              const InputTarget& target, std::int64_t m, std::int64_t columns, cudaStream_t stream);
/// y = norm(x + delta), all of one type; y is neither of them. The sum is float32.
void post_norm_matrix(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
                      const MutableMatrixView& y, std::int64_t m, std::int64_t columns,
                      cudaStream_t stream);
/// The same, and y made ready for linear layers: of the values that y holds, so that float16 is
/// what is rounded to codes.
void post_norm(const MatrixView& x, const MatrixView& delta, const NormWeights& norm,
               const MutableMatrixView& y, const InputTarget& target, std::int64_t m,
               std::int64_t columns, cudaStream_t stream);

/// y = x, of either types.
void convert(const MatrixView& x, const MutableMatrixView& y, std::int64_t m, std::int64_t columns,
             cudaStream_t stream);
/// x as it is.
void input(const MatrixView& x, const InputTarget& target, std::int64_t m, std::int64_t columns,
           cudaStream_t stream);
/// activation(x), x [m, columns].
void mlp_activation(const MatrixView& x, MlpActivation activation, const InputTarget& target,
                    std::int64_t m, std::int64_t columns, cudaStream_t stream);
/// Gate and up, [m, 2 columns]: side by side, or in pairs of eight columns each.
struct GateUp {
  GateUp(const float* gate_up, bool in_pairs = false) : data(gate_up), paired(in_pairs) {}
  const float* data;
  bool paired;
};

/// activation(gate) * up.
void gated_activation(const GateUp& gate_up, MlpActivation activation, const InputTarget& target,
                      std::int64_t m, std::int64_t columns, cudaStream_t stream);

/// The same two as matrices, y [m, columns].
void mlp_activation_matrix(const MatrixView& x, MlpActivation activation,
                           const MutableMatrixView& y, std::int64_t m, std::int64_t columns,
                           cudaStream_t stream);
void gated_activation_matrix(const GateUp& gate_up, MlpActivation activation, float* y,
                             std::int64_t m, std::int64_t columns, cudaStream_t stream);

}  // namespace nibble::ops::cuda
