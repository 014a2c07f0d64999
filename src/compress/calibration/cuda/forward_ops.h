#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compress/backend/cuda/cuda_context.h"
#include "compress/calibration/cuda/rounded_layers.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cuda/device_matrix.h"
#include "ops/gradient/cuda/cuda_operators.h"
#include "ops/ops.h"

namespace nibble::compress::cuda {

/// The operators of ops.h in float32 on a GPU, for whole windows of calibration text: attention of
/// each sequence among its own rows, nothing kept. Layers whose activations are rounded multiply
/// codes. They put work on the context's stream.
class ForwardOps {
 public:
  using Matrix = ops::cuda::DeviceMatrix;
  using Cache = ops::cpu::KvCache;  // never there: windows are whole

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

  /// `cpu` looks up embeddings and routes the tokens of a mixture of experts.
  ForwardOps(CudaContext& context, ops::cpu::CpuOps& cpu)
      : cpu_(cpu),
        operators_(context.stream(), ops::gradient::ProductPrecision::kFloat32, cpu),
        rounded_(context, cpu.pool()) {}

  ops::cpu::CpuOps& cpu() { return cpu_; }
  void set_observer(Observer observer) { observer_ = std::move(observer); }

  /// Float32 copies of a block's dense layers, and packed ones of those whose activations are
  /// rounded, which linear() needs; all others go. Throws kUsage for other layers.
  void load(const models::Block& block);
  /// Gives the memory of layers and activations back. Norms that were read may change then.
  void release() {
    operators_.release();
    rounded_.release();
  }

  Matrix matrix(std::int64_t rows, std::int64_t columns) {
    return operators_.matrix(rows, columns);
  }
  Matrix copy(const Matrix& x) { return operators_.copy(x); }

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
    return operators_.embed(table, ids);
  }
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset) {
    operators_.add_rows(x, table, ids, offset);
  }
  Input norm(const Matrix& x, const ops::Norm& norm, const ops::LinearSet&) {
    return Input(norm_matrix(x, norm));
  }
  Input add_norm(Matrix& x, const Matrix& delta, const ops::Norm& norm, const ops::LinearSet&) {
    add(x, delta);
    return Input(norm_matrix(x, norm));
  }
  Input post_norm(Matrix& x, const Matrix& delta, const ops::Norm& norm,
                  const ops::LinearSet& set) {
    add(x, delta);
    x = norm_matrix(x, norm);
    return input(x, set);
  }
  Matrix norm_matrix(const Matrix& x, const ops::Norm& norm) {
    return operators_.norm_matrix(x, norm);
  }
  void add(Matrix& x, const Matrix& delta) { operators_.add(x, delta); }
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
  Input mlp_activation(const Matrix& x, ops::MlpActivation activation, const ops::LinearSet&) {
    return Input(operators_.activation(x, activation));
  }
  Input gated_activation(const Matrix& gate_up, ops::MlpActivation activation,
                         const ops::LinearSet& set) {
    return Input(operators_.gated_activation(gate_up, activation, set));
  }
  Input input(const Matrix& x, const ops::LinearSet&) { return Input(copy(x)); }
  std::vector<ops::ExpertRows> route(const Matrix& logits, const ops::RoutingSpec& spec) {
    return operators_.route(logits, spec);
  }
  Matrix gather(const Matrix& x, std::span<const std::int32_t> rows) {
    return operators_.gather(x, rows);
  }
  void scatter_add(Matrix& sum, const Matrix& x, const ops::ExpertRows& expert) {
    operators_.scatter_add(sum, x, expert);
  }
  Matrix zeros(std::int64_t rows, std::int64_t columns) { return operators_.zeros(rows, columns); }

 private:
  ops::cpu::CpuOps& cpu_;
  ops::gradient::cuda::CudaOperators operators_;
  RoundedLayers rounded_;
  Observer observer_;
};

}  // namespace nibble::compress::cuda
