#include "ops/gradient/cpu_operators.h"

#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/gradient/activation_gradient.h"
#include "ops/gradient/linear_gradient.h"
#include "ops/gradient/norm_gradient.h"
#include "ops/gradient/rounded_input.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::int64_t kRowsPerTask = 8;

}  // namespace

const cpu::Matrix* slope_of(const std::optional<VariableOf<cpu::Matrix>>& scores) {
  return scores && !scores->gradient().empty() ? &scores->gradient() : nullptr;
}

void CpuOperators::add(Matrix& y, const Matrix& x) {
  cpu::vector_kernels().add(y.data(), x.data(), x.rows() * x.columns());
}

void CpuOperators::add_scaled(Matrix& y, float factor, const Matrix& x) {
  cpu::vector_kernels().axpy_f32(factor, x.data(), y.data(), x.rows() * x.columns());
}

CpuOperators::Matrix CpuOperators::scaled(const Matrix& x, float factor) {
  Matrix y = ops_.copy(x);
  ops_.scale(y, factor);
  return y;
}

void CpuOperators::embed_back(const core::Tensor& table, std::span<const std::int32_t> ids,
                              std::int64_t offset, const Matrix& g,
                              const ParameterGradients* parameters) {
  if (parameters != nullptr) {
    add_table_gradient(table, ids, offset, g, *parameters);
  }
}

void CpuOperators::norm_back(const Norm& norm, const Matrix& x, const Matrix& g,
                             const ParameterGradients* parameters, Matrix& dx) {
  if (parameters != nullptr) {
    add_norm_parameter_gradients(norm, x, g, *parameters, ops_.pool());
  }
  ops_.pool().parallel_for(g.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      add_norm_gradient(norm, x.row(i), g.row(i), dx.row(i));
    }
  });
}

CpuOperators::Matrix CpuOperators::linear(const Matrix& x, const LinearSet& set) {
  core::require(!rounding_of(set) || ops_.unprepared_bytes(set) == 0, core::ErrorKind::kFailed,
                "layer {} rounds its input, but no layout was made of it", set.parts.front().name);
  cpu::CpuOps::Input values(ops_.copy(x));
  return ops_.linear(values, set);
}

void CpuOperators::linear_back(const LinearSet& set, const Matrix& x, const Matrix& g,
                               const LinearWitness<Matrix>& witness, Matrix& dx) {
  const std::optional<InputRounding> rounding = rounding_of(set);
  const Matrix rounded =
      rounding && witness.is_there() ? rounded_input(x, *rounding, ops_) : Matrix();
  const Matrix& read = rounding ? rounded : x;
  if (witness.observer) {
    witness.observer(set, read, g);
  }
  if (witness.parameters != nullptr) {
    add_linear_parameter_gradients(set, read, g, *witness.parameters, ops_.pool());
  }
  if (!rounding || !rounding->cuts()) {
    add_linear_gradient(set, g, dx, ops_.pool());
    return;
  }
  Matrix own = ops_.zeros(x.rows(), x.columns());
  add_linear_gradient(set, g, own, ops_.pool());
  cut_gradient(x, *rounding, own, ops_.pool());
  add(dx, own);
}

CpuOperators::Matrix CpuOperators::attention(const Matrix& qkv, const AttentionSpec& spec,
                                             const Batch<cpu::KvCache>& batch, const LinearSet& set,
                                             Attended& seen) {
  constexpr std::int64_t kNoLayer = 0;  // nothing is cached
  seen.turned = ops_.copy(qkv);
  Matrix y = ops_.copy(ops_.attention(seen.turned, spec, kNoLayer, batch, set).values());
  for (const auto& slice : batch.slices) {
    seen.sequences.push_back({slice.row, slice.rows});
  }
  seen.positions.assign(batch.positions.begin(), batch.positions.end());
  return y;
}

void CpuOperators::attention_back(const AttentionSpec& spec, const Attended& seen,
                                  const Matrix& qkv, const Matrix& y, const Matrix& g,
                                  Matrix& dqkv) {
  add_attention_gradient(
      {spec, seen.sequences, seen.positions, qkv, seen.turned, y, slope_of(seen.scores)}, g, dqkv,
      ops_.pool());
}

CpuOperators::Matrix CpuOperators::activation(const Matrix& x, MlpActivation activation) {
  Matrix y = ops_.copy(x);
  ops_.activate(y, activation);
  return y;
}

void CpuOperators::activation_back(MlpActivation activation, const Matrix& x, const Matrix& g,
                                   Matrix& dx) {
  ops_.pool().parallel_for(g.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      add_activation_gradient(activation, x.row(i), g.row(i), dx.row(i), g.columns());
    }
  });
}

CpuOperators::Matrix CpuOperators::gated_activation(const Matrix& gate_up, MlpActivation activation,
                                                    const LinearSet& set) {
  return ops_.copy(ops_.gated_activation(gate_up, activation, set).values());
}

void CpuOperators::gated_activation_back(MlpActivation activation, const Matrix& gate_up,
                                         const Matrix& g, Matrix& dx) {
  const std::int64_t width = g.columns();
  ops_.pool().parallel_for(g.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* gate = gate_up.row(i);
      add_gated_gradient(activation, gate, gate + width, g.row(i), dx.row(i), dx.row(i) + width,
                         width);
    }
  });
}

void CpuOperators::gather_back(std::span<const std::int32_t> rows, const Matrix& g, Matrix& dx) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    cpu::vector_kernels().add(dx.row(rows[i]), g.row(static_cast<std::int64_t>(i)), g.columns());
  }
}

void CpuOperators::scatter_add_back(const ExpertRows& expert, const Matrix& g, Matrix& dx) {
  for (std::size_t i = 0; i < expert.rows.size(); ++i) {
    cpu::vector_kernels().axpy_f32(expert.weights[i], g.row(expert.rows[i]),
                                   dx.row(static_cast<std::int64_t>(i)), g.columns());
  }
}

template class GradientTape<CpuOperators>;

}  // namespace nibble::ops::gradient
