#include "ops/gradient/cuda/cuda_operators.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/elementwise/vectors.h"
#include "ops/gradient/cuda/parameter_kernels.h"
#include "ops/gradient/cuda/row_kernels.h"
#include "ops/gradient/rounded_input.h"

namespace nibble::ops::gradient::cuda {
namespace {

using core::DType;
using device::cuda::Operand;

constexpr auto kFloat = static_cast<std::int64_t>(sizeof(float));
constexpr std::int64_t kQueries = 512;                        // of a sequence, at a time
constexpr std::int64_t kScoreValues = std::int64_t{1} << 26;  // of attention, at a time

void require_constant(bool is_constant, std::string_view name) {
  core::require(is_constant, core::ErrorKind::kFailed,
                "{} is not trained on a GPU: gradients of embeddings are not built there", name);
}

void copy_values(const float* from, float* to, std::int64_t count, cudaStream_t stream) {
  device::cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count * kFloat),
                                      cudaMemcpyDeviceToDevice, stream),
                      "cudaMemcpyAsync on the device");
}

}  // namespace

CudaOperators::CudaOperators(cudaStream_t stream, ProductPrecision precision, cpu::CpuOps& cpu)
    : stream_(stream),
      type_(precision == ProductPrecision::kBfloat16 ? DType::kBF16 : DType::kF32),
      blas_(stream, precision == ProductPrecision::kTf32 ? device::cuda::FloatProducts::kTf32
                                                         : device::cuda::FloatProducts::kFloat32),
      cpu_(cpu) {}

void CudaOperators::load(const Linear& layer) {
  const formats::PackedWeight& weight = layer.weight;
  core::require(formats::is_dense(weight.scheme) && !layer.low_rank && weight.permutation.empty() &&
                    weight.scheme.inputs.hadamard == 0,
                core::ErrorKind::kUsage,
                "layer {} in {} is not read by float passes on a GPU; use --device cpu", layer.name,
                weight.scheme);
  const core::Tensor& dense = weight.dense;
  Buffer raw = uploaded(std::span(dense.raw(), static_cast<std::size_t>(dense.bytes())));
  if (dense.dtype() != type_) {
    Buffer converted(pool_, weight.n * weight.k * core::size_of(type_));
    convert(raw.as<std::byte>(), dense.dtype(), weight.n * weight.k, converted.as<std::byte>(),
            type_, stream_);
    raw = std::move(converted);
  }
  weights_[&weight] = raw.as<std::byte>();
  owned_.push_back(std::move(raw));
}

void CudaOperators::load(const LinearSet& set) {
  for (const Linear& part : set.parts) {
    load(part);
  }
}

void CudaOperators::place(const formats::PackedWeight& weight, const void* values) {
  weights_[&weight] = values;
}

void CudaOperators::place(const std::vector<float>& vector, const float* values) {
  constants_[&vector] = values;
}

void CudaOperators::release() {
  weights_.clear();
  constants_.clear();
  owned_.clear();
  last_positions_.clear();
  device_positions_ = Buffer();
  pool_ = std::make_shared<ops::cuda::DevicePool>();
}

template <typename T>
CudaOperators::Buffer CudaOperators::uploaded(std::span<const T> values) {
  Buffer buffer(pool_, static_cast<std::int64_t>(values.size_bytes()));
  device::cuda::check(cudaMemcpyAsync(buffer.as<std::byte>(), values.data(), values.size_bytes(),
                                      cudaMemcpyHostToDevice, stream_),
                      "cudaMemcpyAsync to the device");
  device::cuda::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return buffer;
}

CudaOperators::Matrix CudaOperators::uploaded(std::span<const float> values, std::int64_t rows,
                                              std::int64_t columns) {
  Matrix x = matrix(rows, columns);
  device::cuda::check(cudaMemcpyAsync(x.data(), values.data(), values.size_bytes(),
                                      cudaMemcpyHostToDevice, stream_),
                      "cudaMemcpyAsync to the device");
  device::cuda::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return x;
}

void CudaOperators::download(const Matrix& x, std::span<float> values) const {
  device::cuda::check(
      cudaMemcpyAsync(values.data(), x.data(), static_cast<std::size_t>(x.count() * kFloat),
                      cudaMemcpyDeviceToHost, stream_),
      "cudaMemcpyAsync from the device");
  device::cuda::check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

const float* CudaOperators::constant(const std::vector<float>& values) {
  if (values.empty()) {
    return nullptr;
  }
  const auto found = constants_.find(&values);
  if (found != constants_.end()) {
    return found->second;
  }
  owned_.push_back(uploaded(std::span<const float>(values)));
  return constants_[&values] = owned_.back().as<float>();
}

// Batches of windows have the same ones again and again.
const std::int32_t* CudaOperators::positions(std::span<const std::int32_t> values) {
  if (!std::equal(values.begin(), values.end(), last_positions_.begin(), last_positions_.end())) {
    last_positions_.assign(values.begin(), values.end());
    device_positions_ = uploaded(values);
  }
  return device_positions_.as<std::int32_t>();
}

CudaOperators::Matrix CudaOperators::zeros(std::int64_t rows, std::int64_t columns) {
  Matrix x = matrix(rows, columns);
  ops::cuda::zeros(x.data(), x.count(), stream_);
  return x;
}

CudaOperators::Matrix CudaOperators::copy(const Matrix& x, std::int64_t first, std::int64_t rows) {
  Matrix y = matrix(rows, x.columns());
  copy_values(x.data() + first * x.columns(), y.data(), y.count(), stream_);
  return y;
}

void CudaOperators::copy_rows(const Matrix& x, Matrix& y, std::int64_t first) {
  copy_values(x.data(), y.data() + first * y.columns(), x.count(), stream_);
}

void CudaOperators::add(Matrix& y, const Matrix& x) {
  ops::cuda::add(y.data(), static_cast<const float*>(x.data()), x.count(), stream_);
}

void CudaOperators::add_scaled(Matrix& y, float factor, const Matrix& x) {
  cuda::add_scaled(y.data(), factor, x.data(), x.count(), stream_);
}

CudaOperators::Matrix CudaOperators::scaled(const Matrix& x, float factor) {
  Matrix y = copy(x);
  ops::cuda::scale(y.data(), factor, y.count(), stream_);
  return y;
}

CudaOperators::Matrix CudaOperators::embed(const core::Tensor& table,
                                           std::span<const std::int32_t> ids) {
  const cpu::Matrix rows = cpu_.embed(table, ids);
  return uploaded(rows.values(), rows.rows(), rows.columns());
}

void CudaOperators::add_rows(Matrix& x, const core::Tensor& table,
                             std::span<const std::int32_t> ids, std::int64_t offset) {
  cpu::Matrix rows = cpu_.zeros(x.rows(), x.columns());
  cpu_.add_rows(rows, table, ids, offset);
  add(x, uploaded(rows.values(), rows.rows(), rows.columns()));
}

void CudaOperators::embed_back(const core::Tensor& table, std::span<const std::int32_t>,
                               std::int64_t, const Matrix&, const ParameterGradients* parameters) {
  require_constant(parameters == nullptr || parameters->of(table).empty(), "an embedding");
}

ops::cuda::NormWeights CudaOperators::weights_of(const Norm& norm) {
  return {norm.kind, constant(norm.weight), constant(norm.bias), norm.eps};
}

CudaOperators::Matrix CudaOperators::norm_matrix(const Matrix& x, const Norm& norm) {
  Matrix y = matrix(x.rows(), x.columns());
  ops::cuda::norm_matrix(x.data(), weights_of(norm), y.data(), x.rows(), x.columns(), stream_);
  return y;
}

void CudaOperators::norm_back(const Norm& norm, const Matrix& x, const Matrix& g,
                              const ParameterGradients* parameters, Matrix& dx) {
  const ops::cuda::NormWeights weights = weights_of(norm);
  if (parameters != nullptr) {
    if (const auto to = parameters->of(norm.weight); !to.empty()) {
      const Buffer moments(pool_, x.rows() * static_cast<std::int64_t>(sizeof(RowMoments)));
      row_moments(weights, x.data(), x.rows(), x.columns(), moments.as<RowMoments>(), stream_);
      add_norm_weight_gradient(x.data(), moments.as<RowMoments>(), g.data(), x.rows(), x.columns(),
                               to.data(), stream_);
    }
    if (const auto to = parameters->of(norm.bias); !to.empty()) {
      add_column_sums(g.data(), g.rows(), g.columns(), g.columns(), to.data(), stream_);
    }
  }
  add_norm_gradient(weights, x.data(), g.data(), dx.data(), x.rows(), x.columns(), stream_);
}

Heads CudaOperators::heads_of(const AttentionSpec& spec) {
  Heads heads;
  heads.heads = spec.heads;
  heads.kv_heads = spec.kv_heads;
  heads.head_dim = spec.head_dim;
  heads.inverse_frequency = constant(spec.inverse_frequency);
  heads.rotary = 2 * std::ssize(spec.inverse_frequency);
  heads.rope_factor = spec.rope_factor;
  heads.q_norm = constant(spec.q_norm);
  heads.k_norm = constant(spec.k_norm);
  heads.norm_eps = spec.norm_eps;
  return heads;
}

// The query heads that are number `member` of their groups are one batch of products, one for each
// KV head.
struct CudaOperators::Queries {
  Scores shape;
  std::int64_t member = 0;
  std::int64_t row = 0;    // of the first query, in the batch
  std::int64_t query = 0;  // where its values begin in qkv; those of the first key, and value
  std::int64_t key = 0;
  std::int64_t value = 0;
  std::int64_t out = 0;  // where its output begins
};

template <typename Work>
void CudaOperators::for_each_queries(const AttentionSpec& spec, std::span<const RowRange> sequences,
                                     const Work& work) {
  const std::int64_t dim = spec.head_dim;
  const std::int64_t width = (spec.heads + 2 * spec.kv_heads) * dim;
  for (const RowRange& sequence : sequences) {
    const std::int64_t step = std::clamp<std::int64_t>(
        kScoreValues / (spec.kv_heads * sequence.rows), 1, std::min(kQueries, sequence.rows));
    for (std::int64_t first = 0; first < sequence.rows; first += step) {
      const std::int64_t rows = std::min(step, sequence.rows - first);
      Queries queries;
      queries.shape = {spec.kv_heads,
                       rows,
                       spec.mask.bidirectional ? sequence.rows : first + rows,
                       first,
                       spec.mask.bidirectional,
                       spec.mask.window,
                       spec.score_scale(),
                       spec.softcap};
      queries.row = sequence.row + first;
      queries.key = sequence.row * width + spec.heads * dim;
      queries.value = queries.key + spec.kv_heads * dim;
      for (std::int64_t member = 0; member < spec.heads / spec.kv_heads; ++member) {
        queries.member = member;
        queries.query = queries.row * width + member * dim;
        queries.out = queries.row * spec.heads * dim + member * dim;
        work(queries);
      }
    }
  }
}

CudaOperators::Matrix CudaOperators::attention(const Matrix& qkv, const AttentionSpec& spec,
                                               const Batch<cpu::KvCache>& batch, const LinearSet&,
                                               Attended& seen) {
  Matrix turned = copy(qkv);
  turn_heads(heads_of(spec), positions(batch.positions), qkv.rows(), turned.data(), stream_);
  seen.positions.assign(batch.positions.begin(), batch.positions.end());
  for (const auto& slice : batch.slices) {
    seen.sequences.push_back({slice.row, slice.rows});
  }
  seen.turned = Buffer(pool_, qkv.count() * core::size_of(type_));
  convert(turned.data(), DType::kF32, qkv.count(), seen.turned.as<std::byte>(), type_, stream_);
  const std::int64_t dim = spec.head_dim;
  const std::int64_t group = spec.heads / spec.kv_heads;
  const void* const read = seen.turned.as<std::byte>();
  Matrix out = matrix(qkv.rows(), spec.heads * dim);
  for_each_queries(spec, seen.sequences, [&](const Queries& q) {
    const auto [heads, rows, keys] = std::tuple(q.shape.batch, q.shape.rows, q.shape.keys);
    const Buffer scores(pool_, heads * rows * keys * kFloat);
    const Buffer shares(pool_, heads * rows * keys * core::size_of(type_));
    blas_.multiply(rows, keys, dim, 1.0f, operand(read, qkv.columns(), q.query, false, group * dim),
                   operand(read, qkv.columns(), q.key, true, dim), 0.0f,
                   {scores.as<float>(), keys, rows * keys}, heads);
    masked_softmax(q.shape, scores.as<float>(), shares.as<std::byte>(), type_, stream_);
    blas_.multiply(rows, dim, keys, 1.0f,
                   operand(shares.as<std::byte>(), keys, 0, false, rows * keys),
                   operand(read, qkv.columns(), q.value, false, dim), 0.0f,
                   {out.data() + q.out, out.columns(), group * dim}, heads);
  });
  return out;
}

// The scores are computed again. Sums over queries and over the heads of a group grow one after
// another.
void CudaOperators::attention_back(const AttentionSpec& spec, const Attended& seen,
                                   const Matrix& qkv, const Matrix&, const Matrix& g,
                                   Matrix& dqkv) {
  const std::int64_t dim = spec.head_dim;
  const std::int64_t group = spec.heads / spec.kv_heads;
  const std::int64_t width = qkv.columns();
  const void* const read = seen.turned.as<std::byte>();
  const Factor slope = factor(g);
  Matrix dturned = zeros(qkv.rows(), width);
  for_each_queries(spec, seen.sequences, [&](const Queries& q) {
    const auto [heads, rows, keys] = std::tuple(q.shape.batch, q.shape.rows, q.shape.keys);
    const Buffer scores(pool_, heads * rows * keys * kFloat);
    const Buffer dshares(pool_, heads * rows * keys * kFloat);
    const Buffer shares(pool_, heads * rows * keys * core::size_of(type_));
    const Operand queries = operand(read, width, q.query, false, group * dim);
    const Operand dout = operand(slope.data, slope.ld, q.out, false, group * dim);
    const Operand sharing = operand(shares.as<std::byte>(), keys, 0, false, rows * keys);
    const Operand shared = operand(shares.as<std::byte>(), keys, 0, true, rows * keys);
    blas_.multiply(rows, keys, dim, 1.0f, queries, operand(read, width, q.key, true, dim), 0.0f,
                   {scores.as<float>(), keys, rows * keys}, heads);
    masked_softmax(q.shape, scores.as<float>(), shares.as<std::byte>(), type_, stream_);
    blas_.multiply(keys, dim, rows, 1.0f, shared, dout, 1.0f,
                   {dturned.data() + q.value, width, dim}, heads);
    blas_.multiply(rows, keys, dim, 1.0f, dout, operand(read, width, q.value, true, dim), 0.0f,
                   {dshares.as<float>(), keys, rows * keys}, heads);
    masked_softmax_back(q.shape, scores.as<float>(), dshares.as<float>(), shares.as<std::byte>(),
                        type_, stream_);
    blas_.multiply(rows, dim, keys, q.shape.scale, sharing, operand(read, width, q.key, false, dim),
                   0.0f, {dturned.data() + q.query, width, group * dim}, heads);
    blas_.multiply(keys, dim, rows, q.shape.scale, shared, queries, 1.0f,
                   {dturned.data() + q.key, width, dim}, heads);
  });
  turn_heads_back(heads_of(spec), positions(seen.positions), qkv.rows(), qkv.data(), dturned.data(),
                  dqkv.data(), stream_);
}

CudaOperators::Matrix CudaOperators::activation(const Matrix& x, MlpActivation activation) {
  Matrix y = matrix(x.rows(), x.columns());
  ops::cuda::mlp_activation_matrix(x.data(), activation, y.data(), x.rows(), x.columns(), stream_);
  return y;
}

void CudaOperators::activation_back(MlpActivation activation, const Matrix& x, const Matrix& g,
                                    Matrix& dx) {
  add_activation_gradient(activation, x.data(), g.data(), dx.data(), x.count(), stream_);
}

CudaOperators::Matrix CudaOperators::gated_activation(const Matrix& gate_up,
                                                      MlpActivation activation, const LinearSet&) {
  Matrix y = matrix(gate_up.rows(), gate_up.columns() / 2);
  ops::cuda::gated_activation_matrix(gate_up.data(), activation, y.data(), y.rows(), y.columns(),
                                     stream_);
  return y;
}

void CudaOperators::gated_activation_back(MlpActivation activation, const Matrix& gate_up,
                                          const Matrix& g, Matrix& dx) {
  add_gated_gradient(activation, gate_up.data(), g.data(), dx.data(), g.rows(), g.columns(),
                     stream_);
}

std::vector<ExpertRows> CudaOperators::route(const Matrix& logits, const RoutingSpec& spec) {
  cpu::Matrix host = cpu_.matrix(logits.rows(), logits.columns());
  download(logits, std::span(host.data(), static_cast<std::size_t>(logits.count())));
  return cpu_.route(host, spec);
}

CudaOperators::Matrix CudaOperators::gather(const Matrix& x, std::span<const std::int32_t> rows) {
  const Buffer list = uploaded(rows);
  Matrix y = matrix(std::ssize(rows), x.columns());
  ops::cuda::gather(x.data(), x.rows(), x.columns(), list.as<std::int32_t>(), y.data(), y.rows(),
                    stream_);
  return y;
}

void CudaOperators::gather_back(std::span<const std::int32_t> rows, const Matrix& g, Matrix& dx) {
  scatter_add(dx, g,
              {std::vector(rows.begin(), rows.end()), std::vector<float>(rows.size(), 1.0f)});
}

void CudaOperators::scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert) {
  const Buffer rows = uploaded(std::span<const std::int32_t>(expert.rows));
  const Buffer weights = uploaded(std::span<const float>(expert.weights));
  ops::cuda::scatter_add(sum.data(), sum.rows(), sum.columns(), x.data(), rows.as<std::int32_t>(),
                         weights.as<float>(), x.rows(), stream_);
}

void CudaOperators::scatter_add_back(const ExpertRows& expert, const Matrix& g, Matrix& dx) {
  const Buffer rows = uploaded(std::span<const std::int32_t>(expert.rows));
  const Buffer weights = uploaded(std::span<const float>(expert.weights));
  add_gathered(g.data(), rows.as<std::int32_t>(), weights.as<float>(), dx.data(), dx.rows(),
               dx.columns(), stream_);
}

static_assert(Ops<CudaGradientOps>);

}  // namespace nibble::ops::gradient::cuda

template class nibble::ops::gradient::GradientTape<nibble::ops::gradient::cuda::CudaOperators>;
