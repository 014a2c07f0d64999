#include "compress/calibration/cuda/forward_ops.h"

#include <algorithm>
#include <cmath>

#include "compress/calibration/cuda/forward_kernels.h"
#include "core/error.h"

namespace nibble::compress::cuda {

using ops::cuda::PooledBuffer;

namespace {

constexpr std::int64_t kScoreValues = std::int64_t{1} << 26;  // of attention, at a time

}  // namespace

void ForwardOps::load(const models::Block& block) {
  layers_.clear();
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    std::vector<Part>& parts = layers_[set->id];
    for (const ops::Linear& part : set->parts) {
      parts.push_back(load(part));
    }
  }
}

ForwardOps::Part ForwardOps::load(const ops::Linear& layer) {
  const formats::PackedWeight& weight = layer.weight;
  core::require(formats::is_dense(weight.scheme) && !layer.low_rank && weight.permutation.empty() &&
                    weight.scheme.inputs.hadamard == 0,
                core::ErrorKind::kUsage,
                "layer {}: calibration of {} does not run on a GPU yet; use --device cpu",
                layer.name, weight.scheme);
  const core::Tensor& dense = weight.dense;
  const std::int64_t count = weight.n * weight.k;
  Part part;
  part.n = weight.n;
  part.weight = PooledBuffer(pool_, count * static_cast<std::int64_t>(sizeof(float)));
  const std::span bytes(dense.raw(), static_cast<std::size_t>(dense.bytes()));
  if (dense.dtype() == core::DType::kF32) {
    context_.upload(bytes, part.weight.as<std::byte>());
  } else {
    const PooledBuffer raw = pooled(bytes);
    to_float(raw.as<std::byte>(), dense.dtype(), count, part.weight.as<float>(), context_.stream());
  }
  part.has_bias = !layer.bias.empty();
  if (part.has_bias) {
    part.bias = pooled(std::span<const float>(layer.bias));
  }
  return part;
}

void ForwardOps::release() {
  layers_.clear();
  pool_ = std::make_shared<ops::cuda::DevicePool>();
}

ForwardOps::Matrix ForwardOps::copy(const Matrix& x) {
  Matrix y = zeros(x.rows(), x.columns());
  add(y, x);
  return y;
}

ForwardOps::Matrix ForwardOps::embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
  const ops::cpu::Matrix rows = cpu_.embed(table, ids);
  Matrix x = matrix(rows.rows(), rows.columns());
  context_.upload(rows.values(), x.data());
  return x;
}

void ForwardOps::add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                          std::int64_t offset) {
  ops::cpu::Matrix rows = cpu_.zeros(x.rows(), x.columns());
  cpu_.add_rows(rows, table, ids, offset);
  const PooledBuffer device = pooled(rows.values());
  ops::cuda::add(x.data(), device.as<float>(), x.rows() * x.columns(), context_.stream());
}

ForwardOps::Input ForwardOps::post_norm(Matrix& x, const Matrix& delta, const ops::Norm& norm,
                                        const ops::LinearSet& set) {
  add(x, delta);
  x = norm_matrix(x, norm);
  return input(x, set);
}

ForwardOps::Matrix ForwardOps::norm_matrix(const Matrix& x, const ops::Norm& norm) {
  const PooledBuffer weight = pooled(std::span<const float>(norm.weight));
  PooledBuffer bias;
  ops::cuda::NormWeights weights{norm.kind, weight.as<float>(), nullptr, norm.eps};
  if (!norm.bias.empty()) {
    bias = pooled(std::span<const float>(norm.bias));
    weights.bias = bias.as<float>();
  }
  Matrix y = matrix(x.rows(), x.columns());
  ops::cuda::norm_matrix(x.data(), weights, y.data(), x.rows(), x.columns(), context_.stream());
  return y;
}

ForwardOps::Input ForwardOps::norm(const Matrix& x, const ops::Norm& norm, const ops::LinearSet&) {
  return Input(norm_matrix(x, norm));
}

ForwardOps::Input ForwardOps::add_norm(Matrix& x, const Matrix& delta, const ops::Norm& norm,
                                       const ops::LinearSet&) {
  add(x, delta);
  return Input(norm_matrix(x, norm));
}

void ForwardOps::add(Matrix& x, const Matrix& delta) {
  ops::cuda::add(x.data(), delta.data(), x.rows() * x.columns(), context_.stream());
}

ForwardOps::Matrix ForwardOps::linear(Input& input, const ops::LinearSet& set) {
  const Matrix& x = input.values_;
  if (observer_) {
    observer_(set, x);
  }
  const auto found = layers_.find(set.id);
  core::require(found != layers_.end(), core::ErrorKind::kFailed,
                "layer {} was not loaded to the GPU", set.parts.front().name);
  Matrix y = matrix(x.rows(), set.n());
  std::int64_t column = 0;
  for (const Part& part : found->second) {
    context_.blas().multiply(x.rows(), part.n, x.columns(), 1.0f, {x.data(), x.columns()},
                             {part.weight.as<float>(), x.columns(), true}, 0.0f,
                             {y.data() + column, y.columns()});
    if (part.has_bias) {
      ops::cuda::add_bias(y.data(), part.bias.as<float>(), y.rows(), y.columns(), column, part.n,
                          context_.stream());
    }
    column += part.n;
  }
  return y;
}

ForwardOps::Input ForwardOps::attention(Matrix& qkv, const ops::AttentionSpec& spec, std::int64_t,
                                        const ops::Batch<Cache>& batch, const ops::LinearSet&) {
  core::require(!spec.mask.bidirectional, core::ErrorKind::kUsage,
                "attention in both directions does not run on a GPU yet; use --device cpu");
  Heads heads;
  heads.heads = spec.heads;
  heads.kv_heads = spec.kv_heads;
  heads.head_dim = spec.head_dim;
  heads.rotary = 2 * static_cast<std::int64_t>(spec.inverse_frequency.size());
  heads.rope_factor = spec.rope_factor;
  heads.norm_eps = spec.norm_eps;
  std::vector<PooledBuffer> parameters;
  const auto pointer = [&](const std::vector<float>& values) -> const float* {
    if (values.empty()) {
      return nullptr;
    }
    parameters.push_back(pooled(std::span(values)));
    return parameters.back().as<float>();
  };
  heads.inverse_frequency = pointer(spec.inverse_frequency);
  heads.q_norm = pointer(spec.q_norm);
  heads.k_norm = pointer(spec.k_norm);
  const PooledBuffer positions = pooled(batch.positions);
  prepare_heads(heads, positions.as<std::int32_t>(), qkv.rows(), qkv.data(), context_.stream());
  Matrix out = matrix(qkv.rows(), spec.heads * spec.head_dim);
  for (const auto& slice : batch.slices) {
    const std::int64_t step =
        std::clamp<std::int64_t>(kScoreValues / (spec.kv_heads * slice.rows), 1, slice.rows);
    const PooledBuffer scores(
        pool_, spec.kv_heads * step * slice.rows * static_cast<std::int64_t>(sizeof(float)));
    for (std::int64_t first = 0; first < slice.rows; first += step) {
      attend(qkv, spec, slice.row, first, std::min(step, slice.rows - first), scores.as<float>(),
             out);
    }
  }
  return Input(std::move(out));
}

// The query heads that are number `member` of their groups are one batch of products, one for each
// KV head.
void ForwardOps::attend(const Matrix& qkv, const ops::AttentionSpec& spec, std::int64_t row,
                        std::int64_t first, std::int64_t rows, float* scores, Matrix& out) {
  const device::cuda::Blas& blas = context_.blas();
  const std::int64_t dim = spec.head_dim;
  const std::int64_t group = spec.heads / spec.kv_heads;
  const std::int64_t keys = first + rows;
  const float* const begin = qkv.data() + row * qkv.columns();
  const float* const key = begin + spec.heads * dim;
  const float* const value = key + spec.kv_heads * dim;
  for (std::int64_t member = 0; member < group; ++member) {
    const float* const query = begin + first * qkv.columns() + member * dim;
    blas.multiply(rows, keys, dim, 1.0f, {query, qkv.columns(), false, group * dim},
                  {key, qkv.columns(), true, dim}, 0.0f, {scores, keys, rows * keys},
                  spec.kv_heads);
    masked_softmax(scores, spec.kv_heads, rows, keys, first, spec.mask.window,
                   1.0f / std::sqrt(static_cast<float>(dim)), context_.stream());
    float* const target = out.data() + (row + first) * out.columns() + member * dim;
    blas.multiply(rows, dim, keys, 1.0f, {scores, keys, false, rows * keys},
                  {value, qkv.columns(), false, dim}, 0.0f, {target, out.columns(), group * dim},
                  spec.kv_heads);
  }
}

ForwardOps::Input ForwardOps::mlp_activation(const Matrix& x, ops::MlpActivation activation,
                                             const ops::LinearSet&) {
  Matrix y = matrix(x.rows(), x.columns());
  ops::cuda::mlp_activation_matrix(x.data(), activation, y.data(), x.rows(), x.columns(),
                                   context_.stream());
  return Input(std::move(y));
}

ForwardOps::Input ForwardOps::gated_activation(const Matrix& gate_up, ops::MlpActivation activation,
                                               const ops::LinearSet&) {
  Matrix y = matrix(gate_up.rows(), gate_up.columns() / 2);
  ops::cuda::gated_activation_matrix(gate_up.data(), activation, y.data(), y.rows(), y.columns(),
                                     context_.stream());
  return Input(std::move(y));
}

ForwardOps::Input ForwardOps::input(const Matrix& x, const ops::LinearSet&) {
  return Input(copy(x));
}

std::vector<ops::ExpertRows> ForwardOps::route(const Matrix& logits, const ops::RoutingSpec& spec) {
  ops::cpu::Matrix host = cpu_.matrix(logits.rows(), logits.columns());
  context_.download(logits.data(),
                    std::span(host.data(), static_cast<std::size_t>(host.rows() * host.columns())));
  return cpu_.route(host, spec);
}

ForwardOps::Matrix ForwardOps::gather(const Matrix& x, std::span<const std::int32_t> rows) {
  const PooledBuffer list = pooled(rows);
  Matrix y = matrix(static_cast<std::int64_t>(rows.size()), x.columns());
  ops::cuda::gather(x.data(), x.rows(), x.columns(), list.as<std::int32_t>(), y.data(), y.rows(),
                    context_.stream());
  return y;
}

void ForwardOps::scatter_add(Matrix& sum, const Matrix& x, const ops::ExpertRows& expert) {
  const PooledBuffer rows = pooled(std::span(expert.rows));
  const PooledBuffer weights = pooled(std::span(expert.weights));
  ops::cuda::scatter_add(sum.data(), sum.rows(), sum.columns(), x.data(), rows.as<std::int32_t>(),
                         weights.as<float>(), x.rows(), context_.stream());
}

ForwardOps::Matrix ForwardOps::zeros(std::int64_t rows, std::int64_t columns) {
  Matrix x = matrix(rows, columns);
  ops::cuda::zeros(x.data(), rows * columns, context_.stream());
  return x;
}

}  // namespace nibble::compress::cuda
