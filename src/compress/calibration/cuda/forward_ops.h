#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compress/backend/cuda/cuda_context.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/device_matrix.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/ops.h"

namespace nibble::compress::cuda {

/// The operators of ops.h in float32 on a GPU, for whole windows of calibration text: dense layers
/// by cuBLAS, attention of each sequence among its own rows, nothing kept. They put work on the
/// context's stream.
class ForwardOps {
 public:
  using Matrix = ops::cuda::DeviceMatrix;
  struct Cache {};  // windows are whole

  class Input {
   public:
    std::int64_t m() const { return values_.rows(); }

   private:
    friend class ForwardOps;
    explicit Input(Matrix&& values) : values_(std::move(values)) {}
    Matrix values_;
  };

  /// Sees what linear layers read.
  using Observer = std::function<void(const ops::LinearSet& set, const Matrix& input)>;

  /// `cpu` routes the tokens of a mixture of experts.
  ForwardOps(CudaContext& context, ops::cpu::CpuOps& cpu) : context_(context), cpu_(cpu) {}

  ops::cpu::CpuOps& cpu() { return cpu_; }
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  /// Float32 copies of a block's layers, which linear() needs. Throws kUsage for layers that are
  /// not dense.
  void load(const models::Block& block);
  /// Gives the memory of layers and activations back.
  void release();

  Matrix matrix(std::int64_t rows, std::int64_t columns) { return {pool_, rows, columns}; }
  Matrix copy(const Matrix& x);

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids);
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset);
  Input norm(const Matrix& x, const ops::Norm& norm, const ops::LinearSet& set);
  Input add_norm(Matrix& x, const Matrix& delta, const ops::Norm& norm, const ops::LinearSet& set);
  Input post_norm(Matrix& x, const Matrix& delta, const ops::Norm& norm, const ops::LinearSet& set);
  Matrix norm_matrix(const Matrix& x, const ops::Norm& norm);
  void add(Matrix& x, const Matrix& delta);
  Matrix linear(Input& input, const ops::LinearSet& set);
  /// Nothing is fused.
  std::optional<Matrix> linear(Input& input, const ops::LinearSet& set,
                               const ops::Residual<Matrix>&) {
    return linear(input, set);
  }
  Input linear(Input& input, const ops::LinearSet& set, const ops::ActivateInto& into) {
    return into.gated ? gated_activation(linear(input, set), into.activation, into.next)
                      : mlp_activation(linear(input, set), into.activation, into.next);
  }
  Input attention(Matrix& qkv, const ops::AttentionSpec& spec, std::int64_t layer,
                  const ops::Batch<Cache>& batch, const ops::LinearSet& set);
  Input mlp_activation(const Matrix& x, ops::MlpActivation activation, const ops::LinearSet& set);
  Input gated_activation(const Matrix& gate_up, ops::MlpActivation activation,
                         const ops::LinearSet& set);
  Input input(const Matrix& x, const ops::LinearSet& set);
  std::vector<ops::ExpertRows> route(const Matrix& logits, const ops::RoutingSpec& spec);
  Matrix gather(const Matrix& x, std::span<const std::int32_t> rows);
  void scatter_add(Matrix& sum, const Matrix& x, const ops::ExpertRows& expert);
  Matrix zeros(std::int64_t rows, std::int64_t columns);

 private:
  struct Part {
    ops::cuda::PooledBuffer weight;  // [n, k] float32
    ops::cuda::PooledBuffer bias;    // [n], where there is one
    std::int64_t n = 0;
    bool has_bias = false;
  };

  Part load(const ops::Linear& part);
  // A copy in the pool.
  template <typename T>
  ops::cuda::PooledBuffer pooled(std::span<const T> values) {
    ops::cuda::PooledBuffer buffer(pool_, static_cast<std::int64_t>(values.size_bytes()));
    context_.upload(values, buffer.as<T>());
    return buffer;
  }
  // Rows of the sequence's queries [first, first + rows) against the keys before their end.
  void attend(const Matrix& qkv, const ops::AttentionSpec& spec, std::int64_t row,
              std::int64_t first, std::int64_t rows, float* scores, Matrix& out);

  CudaContext& context_;
  ops::cpu::CpuOps& cpu_;
  Observer observer_;
  std::shared_ptr<ops::cuda::DevicePool> pool_ = std::make_shared<ops::cuda::DevicePool>();
  std::map<int, std::vector<Part>> layers_;  // by set id
};

}  // namespace nibble::compress::cuda
