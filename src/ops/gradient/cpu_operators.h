#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/attention_gradient.h"
#include "ops/gradient/gradient_tape.h"

namespace nibble::ops::gradient {

/// What a loss asks of scores of attention; null: nothing, or they are not kept.
const cpu::Matrix* slope_of(const std::optional<VariableOf<cpu::Matrix>>& scores);

/// The operators of a GradientTape on a CPU. Layers whose scheme rounds activations compute as they
/// do when the model runs (CpuOps::prepare must have seen them); gradients pass through that
/// rounding (rounded_input.h).
class CpuOperators {
 public:
  using Matrix = cpu::Matrix;
  /// What attention saw and made.
  struct Attended {
    Matrix turned;  // qkv behind QK norm and RoPE
    std::vector<RowRange> sequences;
    std::vector<std::int32_t> positions;
    std::optional<VariableOf<Matrix>> scores;  // where they are kept
  };

  /// `ops` computes the values; it must be in float (ActivationPrecision::kFloat) and outlive this.
  explicit CpuOperators(cpu::CpuOps& ops) : ops_(ops) { ops.keep_values(true); }

  cpu::CpuOps& ops() { return ops_; }

  Matrix zeros(std::int64_t rows, std::int64_t columns) { return ops_.zeros(rows, columns); }
  Matrix copy(const Matrix& x) { return ops_.copy(x); }
  /// y += x, y += factor x.
  void add(Matrix& y, const Matrix& x);
  void add_scaled(Matrix& y, float factor, const Matrix& x);
  Matrix scaled(const Matrix& x, float factor);

  Matrix embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
    return ops_.embed(table, ids);
  }
  void add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                std::int64_t offset) {
    ops_.add_rows(x, table, ids, offset);
  }
  void embed_back(const core::Tensor& table, std::span<const std::int32_t> ids, std::int64_t offset,
                  const Matrix& g, const ParameterGradients* parameters);

  Matrix norm_matrix(const Matrix& x, const Norm& norm) { return ops_.norm_matrix(x, norm); }
  void norm_back(const Norm& norm, const Matrix& x, const Matrix& g,
                 const ParameterGradients* parameters, Matrix& dx);

  Matrix linear(const Matrix& x, const LinearSet& set);
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

  std::vector<ExpertRows> route(const Matrix& logits, const RoutingSpec& spec) {
    return ops_.route(logits, spec);
  }
  Matrix gather(const Matrix& x, std::span<const std::int32_t> rows) {
    return ops_.gather(x, rows);
  }
  void gather_back(std::span<const std::int32_t> rows, const Matrix& g, Matrix& dx);
  void scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert) {
    ops_.scatter_add(sum, x, expert);
  }
  void scatter_add_back(const ExpertRows& expert, const Matrix& g, Matrix& dx);

 private:
  cpu::CpuOps& ops_;
};

extern template class GradientTape<CpuOperators>;

}  // namespace nibble::ops::gradient
