#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "device/cuda/blas.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/device_matrix.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/gradient/attention_gradient.h"
#include "ops/gradient/cuda/attention_kernels.h"
#include "ops/gradient/cuda/input_kernels.h"
#include "ops/gradient/gradient_tape.h"
#include "ops/gradient/product_precision.h"

namespace nibble::ops::gradient::cuda {

/// The operators of a GradientTape on a GPU: all work goes to one stream, and every sum has a fixed
/// order, so that the bits are the same each time. Products are cuBLAS's; attention holds its
/// scores as matrices, some rows of queries at a time.
///
/// Numbers of the model are known by the object that a forward pass reads them from, which must not
/// move between load() and release(), and change only where they were placed. Gradients of
/// ParameterGradients are memory of the GPU; embeddings have none.
class CudaOperators {
 public:
  using Matrix = ops::cuda::DeviceMatrix;
  /// What attention saw and made.
  struct Attended {
    ops::cuda::PooledBuffer turned;  // qkv behind QK norm and RoPE, as products take it
    std::vector<RowRange> sequences;
    std::vector<std::int32_t> positions;
  };

  /// `cpu` looks up embeddings and routes the tokens of a mixture of experts; it must outlive this.
  /// Throws kUsage where cuBLAS is not installed.
  CudaOperators(cudaStream_t stream, ProductPrecision precision, cpu::CpuOps& cpu);

  /// About the most that attention takes for its scores at a time.
  static constexpr std::int64_t kMostScoreBytes = std::int64_t{12} << 26;

  cudaStream_t stream() const { return stream_; }
  /// What products take: F32 or BF16.
  core::DType product_type() const { return type_; }

  /// A copy of a layer's weights, which linear() needs. Throws kUsage, naming the layer, for
  /// weights that are not dense.
  void load(const Linear& layer);
  void load(const LinearSet& set);
  /// Takes `values` [n, k] in product_type(), in memory of the caller, for a weight.
  void place(const formats::PackedWeight& weight, const void* values);
  /// Takes `values`, as many float32 in memory of the caller, for a bias or the weight of a norm.
  void place(const std::vector<float>& vector, const float* values);
  /// Gives all memory back; that of a matrix when it goes.
  void release();

  Matrix matrix(std::int64_t rows, std::int64_t columns) { return {pool_, rows, columns}; }
  /// A copy of a matrix of the host; waits for it.
  Matrix uploaded(std::span<const float> values, std::int64_t rows, std::int64_t columns);
  void download(const Matrix& x, std::span<float> values) const;

  Matrix zeros(std::int64_t rows, std::int64_t columns);
  Matrix copy(const Matrix& x) { return copy(x, 0, x.rows()); }
  /// Rows [first, first + rows) of x.
  Matrix copy(const Matrix& x, std::int64_t first, std::int64_t rows);
  /// Rows of y from `first` on become x.
  void copy_rows(const Matrix& x, Matrix& y, std::int64_t first);
  void add(Matrix& y, const Matrix& x);
  void add_scaled(Matrix& y, float factor, const Matrix& x);
  Matrix scaled(const Matrix& x, float factor);

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset);
  void embed_back(const core::Tensor& table, std::span<const std::int32_t> ids, std::int64_t offset,
                  const Matrix& g, const ParameterGradients* parameters);

  Matrix norm_matrix(const Matrix& x, const Norm& norm);
  void norm_back(const Norm& norm, const Matrix& x, const Matrix& g,
                 const ParameterGradients* parameters, Matrix& dx);

  /// g^T x [n, k], the gradient at the weights of layers with inputs x [m, k], from that of their
  /// outputs, g [m, n].
  Matrix weight_slopes(const Matrix& x, const Matrix& g);

  /// Layers that round their input (rounded_input.h) read it rounded; their weights are placed.
  Matrix linear(const Matrix& x, const LinearSet& set);
  /// Columns [column, column + n) of y become those of one layer.
  void linear(const Matrix& x, const Linear& part, Matrix& y, std::int64_t column);
  void linear_back(const LinearSet& set, const Matrix& x, const Matrix& g,
                   const LinearWitness<Matrix>& witness, Matrix& dx);

  Matrix attention(const Matrix& qkv, const AttentionSpec& spec, const Batch<cpu::KvCache>& batch,
                   const LinearSet& set, Attended& seen);
  void attention_back(const AttentionSpec& spec, const Attended& seen, const Matrix& qkv,
                      const Matrix& y, const Matrix& g, Matrix& dqkv);

  Matrix activation(const Matrix& x, MlpActivation activation);
  void activation_back(MlpActivation activation, const Matrix& x, const Matrix& g, Matrix& dx);
  Matrix gated_activation(const Matrix& gate_up, MlpActivation activation, const LinearSet& set);
  void gated_activation_back(MlpActivation activation, const Matrix& gate_up, const Matrix& g,
                             Matrix& dx);

  std::vector<ExpertRows> route(const Matrix& logits, const RoutingSpec& spec);
  Matrix gather(const Matrix& x, std::span<const std::int32_t> rows);
  /// No row may appear twice.
  void gather_back(std::span<const std::int32_t> rows, const Matrix& g, Matrix& dx);
  void scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert);
  void scatter_add_back(const ExpertRows& expert, const Matrix& g, Matrix& dx);

 private:
  using Buffer = ops::cuda::PooledBuffer;

  // A matrix as products take it: itself, or a copy in bfloat16.
  struct Factor {
    const void* data = nullptr;
    std::int64_t ld = 0;
    Buffer copy;
  };
  Factor factor(const Matrix& x);
  // Its columns from `column` on.
  device::cuda::Operand operand(const void* data, std::int64_t ld, std::int64_t at,
                                bool transposed = false, std::int64_t stride = 0) const;

  template <typename T>
  Buffer uploaded(std::span<const T> values);
  // A copy that stays until release(); null for an empty vector.
  const float* constant(const std::vector<float>& values);
  const std::int32_t* positions(std::span<const std::int32_t> values);
  ops::cuda::NormWeights weights_of(const Norm& norm);
  const void* weight_of(const Linear& part) const;
  void linear(const Factor& read, const Linear& part, Matrix& y, std::int64_t column);
  Matrix rounded(const Matrix& x, const IntegerRounding& rounding);
  void add_parameter_gradients(const LinearSet& set, const Factor& read, const Factor& slope,
                               const Matrix& g, const ParameterGradients& parameters);
  Heads heads_of(const AttentionSpec& spec);

  // Some queries of a sequence, and all keys that they see.
  struct Queries;
  template <typename Work>
  void for_each_queries(const AttentionSpec& spec, std::span<const RowRange> sequences,
                        const Work& work);

  cudaStream_t stream_;
  core::DType type_;
  device::cuda::Blas blas_;
  cpu::CpuOps& cpu_;
  std::shared_ptr<ops::cuda::DevicePool> pool_ = std::make_shared<ops::cuda::DevicePool>();
  std::map<const formats::PackedWeight*, const void*> weights_;
  std::vector<Buffer> owned_;  // of weights and constants
  std::map<const std::vector<float>*, const float*> constants_;
  std::vector<std::int32_t> last_positions_;
  Buffer device_positions_;
};

/// The tape on a GPU.
using CudaGradientOps = GradientTape<CudaOperators>;

}  // namespace nibble::ops::gradient::cuda

extern template class nibble::ops::gradient::GradientTape<
    nibble::ops::gradient::cuda::CudaOperators>;
