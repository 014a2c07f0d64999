#include "ops/cuda/cuda_ops.h"

#include <algorithm>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/elementwise/input_target.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using device::cuda::Buffer;

constexpr std::int64_t kNumbersOfRow = 4;  // that a step puts: token, position, row, and room

[[noreturn]] void refuse_experts() {
  core::fail(ErrorKind::kUsage, "mixtures of experts do not run on a GPU yet; use --device cpu");
}

Buffer upload(std::span<const float> values) {
  return Buffer::of<float>(values);
}

}  // namespace

CudaOps::CudaOps(const StepLimits& limits)
    : device_(device::require_cuda_device()), limits_(limits), step_(kNumbersOfRow * limits.rows) {}

void CudaOps::prepare(const LinearSet& set, core::ThreadPool& pool) {
  const auto id = static_cast<std::size_t>(set.id);
  if (prepared_.size() <= id) {
    prepared_.resize(id + 1);
  }
  Layers layers;
  layers.n = set.n();
  layers.k = set.k();
  for (std::size_t part = 0; part < set.parts.size();) {
    const std::size_t count = joint_parts(set, part);
    const Linear& front = set.parts[part];
    layers.parts.push_back(
        front.weight.scheme.kind == formats::FormatKind::kDense
            ? DeviceLinear::dense(front, table_of(front.weight.dense))
            : DeviceLinear::packed(set, part, part + count, device_.multiprocessors, pool));
    part += count;
  }
  prepared_[id] = std::move(layers);
}

std::int64_t CudaOps::prepared_bytes() const {
  std::int64_t sum = 0;
  for (const Layers& layers : prepared_) {
    for (const DeviceLinear& part : layers.parts) {
      sum += part.bytes();
    }
  }
  for (const auto& [data, buffer] : tables_) {
    sum += buffer->bytes();
  }
  return sum;
}

void CudaOps::set_pool(std::unique_ptr<KvPool> pool) {
  kv_ = std::move(pool);
  turn_.emplace(kv_->layout().head_dim);
}

CudaOps::Step CudaOps::begin_step(const Batch<KvSequence>& batch,
                                  std::span<const std::int32_t> rows,
                                  std::span<const std::int64_t> windows, std::int64_t group) {
  const auto m = static_cast<std::int64_t>(batch.tokens.size());
  core::require(m <= limits_.rows, ErrorKind::kFailed, "{} tokens in a step; at most {} are taken",
                m, limits_.rows);
  step_.clear();
  Step step{step_.put(batch.tokens), step_.put(batch.positions), step_.put(rows)};
  step_.upload(stream());
  splits_ = false;
  std::vector<PlannedSequence> sequences;
  for (const auto& slice : batch.slices) {
    sequences.push_back({slice.cache->pages(), slice.position, slice.row, slice.rows});
  }
  for (const std::int64_t window : windows) {
    auto at = plans_.find(window);
    if (at == plans_.end()) {
      at = plans_
               .emplace(window,
                        PlanBuffer({limits_.rows, kv_->pages(), limits_.items, limits_.items}))
               .first;
    }
    const AttentionPlan plan = plan_attention(sequences, group, window);
    splits_ = splits_ || plan.partials > 0;
    at->second.upload(plan, stream());
  }
  return step;
}

const CudaOps::Layers& CudaOps::layers_of(const LinearSet& set) const {
  const auto id = static_cast<std::size_t>(set.id);
  core::require(id < prepared_.size() && !prepared_[id].parts.empty(), ErrorKind::kFailed,
                "layer {} was not made ready for the GPU", set.parts.front().name);
  return prepared_[id];
}

const NormWeights& CudaOps::weights_of(const Norm& norm) {
  const auto at = norms_.find(&norm);
  if (at != norms_.end()) {
    return at->second.view;
  }
  DeviceNorm& made = norms_[&norm];
  made.weight = upload(norm.weight);
  made.view = {norm.kind, made.weight.as<float>(), nullptr, norm.eps};
  if (!norm.bias.empty()) {
    made.bias = upload(norm.bias);
    made.view.bias = made.bias.as<float>();
  }
  return made.view;
}

const AttentionLayer& CudaOps::layer_of(const AttentionSpec& spec) {
  const auto at = attentions_.find(&spec);
  if (at != attentions_.end()) {
    return at->second.view;
  }
  DeviceAttention& made = attentions_[&spec];
  AttentionLayer& view = made.view;
  view.layout = kv_->layout();
  view.heads = spec.heads;
  view.rotary = 2 * static_cast<std::int64_t>(spec.inverse_frequency.size());
  view.rope_factor = spec.rope_factor;
  view.norm_eps = spec.norm_eps;
  view.turned = turn_->exists();
  view.turn = turn_->view();
  if (!spec.inverse_frequency.empty()) {
    made.inverse_frequency = upload(spec.inverse_frequency);
    view.inverse_frequency = made.inverse_frequency.as<float>();
  }
  if (!spec.q_norm.empty()) {
    made.q_norm = upload(spec.q_norm);
    view.q_norm = made.q_norm.as<float>();
  }
  if (!spec.k_norm.empty()) {
    made.k_norm = upload(spec.k_norm);
    view.k_norm = made.k_norm.as<float>();
  }
  return view;
}

std::shared_ptr<Buffer> CudaOps::table_of(const core::Tensor& tensor) {
  std::shared_ptr<Buffer>& table = tables_[tensor.raw()];
  if (!table) {
    table = std::make_shared<Buffer>(tensor.bytes());
    table->upload(tensor.raw(), tensor.bytes());
  }
  return table;
}

EmbeddingTable CudaOps::embedding(const core::Tensor& table) {
  return {table_of(table)->data(), table.dtype(), table.dim(0), table.dim(1)};
}

CudaOps::Input::Form CudaOps::form(const InputKey& key, std::int64_t m, std::int64_t k) {
  const std::int64_t padded = padded_columns(k);
  if (key.form == InputForm::kFloat16Tiles) {
    return {key, PooledBuffer(pool_, m * padded * 2), {}};
  }
  const std::int64_t digits = key.bits == 16 ? 2 : 1;
  const std::int64_t scales = key.group == 0 ? 1 : padded / key.group;
  return {key, PooledBuffer(pool_, m * digits * padded),
          PooledBuffer(pool_, m * scales * static_cast<std::int64_t>(sizeof(float)))};
}

InputTarget CudaOps::target_of(const Input::Form& form) {
  InputTarget target;
  target.form = form.key.form;
  if (target.form == InputForm::kFloat16Tiles) {
    target.values = form.values.as<core::Fp16>();
    return target;
  }
  target.codes = form.values.as<std::int8_t>();
  target.scales = form.scales.as<float>();
  target.bits = form.key.bits;
  target.group = form.key.group;
  target.clip = form.key.clip;
  return target;
}

// One form comes straight from the operator; more of them, or floats, by way of a matrix.
template <typename ToTarget, typename ToMatrix>
CudaOps::Input CudaOps::make_input(const LinearSet& set, std::int64_t m, const ToTarget& to_target,
                                   const ToMatrix& to_matrix) {
  const Layers& layers = layers_of(set);
  std::vector<InputKey> keys;
  for (const DeviceLinear& part : layers.parts) {
    const InputKey key = part.key(m);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
    }
  }
  Input input;
  input.m_ = m;
  if (keys.size() == 1 && !keys.front().matrix) {
    input.forms_.push_back(form(keys.front(), m, layers.k));
    to_target(target_of(input.forms_.front()));
    return input;
  }
  input.matrix_ = to_matrix();
  for (const InputKey& key : keys) {
    if (!key.matrix) {
      input.forms_.push_back(form(key, m, layers.k));
      cuda::input(input.matrix_->data(), target_of(input.forms_.back()), m, layers.k, stream());
    }
  }
  return input;
}

CudaOps::Matrix CudaOps::embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
  Matrix x = matrix(static_cast<std::int64_t>(ids.size()), table.dim(1));
  cuda::embed(embedding(table), step_.on_device(ids), 0, x.data(), x.rows(), stream());
  return x;
}

void CudaOps::add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                       std::int64_t offset) {
  cuda::add_rows(embedding(table), step_.on_device(ids), offset, x.data(), x.rows(), stream());
}

CudaOps::Input CudaOps::norm(const Matrix& x, const Norm& norm, const LinearSet& set) {
  const NormWeights& weights = weights_of(norm);
  return make_input(
      set, x.rows(),
      [&](const InputTarget& target) {
        cuda::norm(x.data(), weights, target, x.rows(), x.columns(), stream());
      },
      [&] { return norm_matrix(x, norm); });
}

CudaOps::Input CudaOps::add_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                                 const LinearSet& set) {
  const NormWeights& weights = weights_of(norm);
  return make_input(
      set, x.rows(),
      [&](const InputTarget& target) {
        cuda::add_norm(x.data(), delta.data(), weights, target, x.rows(), x.columns(), stream());
      },
      [&] {
        add(x, delta);
        return norm_matrix(x, norm);
      });
}

CudaOps::Matrix CudaOps::norm_matrix(const Matrix& x, const Norm& norm) {
  Matrix y = matrix(x.rows(), x.columns());
  cuda::norm_matrix(x.data(), weights_of(norm), y.data(), x.rows(), x.columns(), stream());
  return y;
}

void CudaOps::add(Matrix& x, const Matrix& delta) {
  cuda::add(x.data(), delta.data(), x.rows() * x.columns(), stream());
}

CudaOps::Matrix CudaOps::linear(Input& input, const LinearSet& set) {
  const Layers& layers = layers_of(set);
  Matrix y = matrix(input.m_, layers.n);
  std::int64_t column = 0;
  for (const DeviceLinear& part : layers.parts) {
    LinearInput x;
    x.m = input.m_;
    const InputKey key = part.key(x.m);
    if (key.matrix) {
      x.matrix = input.matrix_->data();
    } else {
      const auto form = std::find_if(input.forms_.begin(), input.forms_.end(),
                                     [&](const Input::Form& each) { return each.key == key; });
      x.target = target_of(*form);
    }
    part.run(x, y.data() + column, layers.n, stream());
    column += part.n();
  }
  return y;
}

CudaOps::Input CudaOps::attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                                  const Batch<KvSequence>& batch, const LinearSet& set) {
  const AttentionLayer& view = layer_of(spec);
  DevicePlan plan = plans_.at(spec.window).plan();
  if (!splits_) {
    plan.max_partials = 0;
  }
  const std::int64_t m = qkv.rows();
  const std::int64_t width = spec.heads * spec.head_dim;
  if (partials_.empty()) {
    partials_ = Buffer(partial_floats(limits_.items, spec.heads, spec.head_dim) * 4);
  }
  const bool halves = view.layout.fragments();
  const PooledBuffer queries(pool_, m * width * (halves ? 2 : 4));
  const Queries q{halves ? queries.as<core::Fp16>() : nullptr,
                  halves ? nullptr : queries.as<float>()};
  std::byte* const pages = kv_->layer(layer);
  append(view, qkv.data(), plan, m, q, pages, stream());
  Matrix heads = matrix(m, width);
  AttentionOutput output;
  output.rows = heads.data();
  const auto single = [](const auto& slice) { return slice.rows == 1; };
  if (std::any_of(batch.slices.begin(), batch.slices.end(), single)) {
    attend_decode(view, q, pages, plan, partials_.as<float>(), output, stream());
  }
  if (!std::all_of(batch.slices.begin(), batch.slices.end(), single)) {
    attend_prefill(view, q, pages, plan, output, stream());
  }
  return input(heads, set);
}

CudaOps::Input CudaOps::mlp_activation(const Matrix& x, MlpActivation activation,
                                       const LinearSet& set) {
  return make_input(
      set, x.rows(),
      [&](const InputTarget& target) {
        cuda::mlp_activation(x.data(), activation, target, x.rows(), x.columns(), stream());
      },
      [&] {
        Matrix y = matrix(x.rows(), x.columns());
        mlp_activation_matrix(x.data(), activation, y.data(), x.rows(), x.columns(), stream());
        return y;
      });
}

CudaOps::Input CudaOps::gated_activation(const Matrix& gate_up, MlpActivation activation,
                                         const LinearSet& set) {
  const std::int64_t width = gate_up.columns() / 2;
  return make_input(
      set, gate_up.rows(),
      [&](const InputTarget& target) {
        cuda::gated_activation(gate_up.data(), activation, target, gate_up.rows(), width, stream());
      },
      [&] {
        Matrix y = matrix(gate_up.rows(), width);
        gated_activation_matrix(gate_up.data(), activation, y.data(), gate_up.rows(), width,
                                stream());
        return y;
      });
}

CudaOps::Input CudaOps::input(const Matrix& x, const LinearSet& set) {
  return make_input(
      set, x.rows(),
      [&](const InputTarget& target) {
        cuda::input(x.data(), target, x.rows(), x.columns(), stream());
      },
      [&] {
        Matrix y = zeros(x.rows(), x.columns());
        add(y, x);
        return y;
      });
}

std::vector<ExpertRows> CudaOps::route(const Matrix&, const RoutingSpec&) {
  refuse_experts();
}

CudaOps::Matrix CudaOps::gather(const Matrix& x, std::span<const std::int32_t> rows) {
  Matrix y = matrix(static_cast<std::int64_t>(rows.size()), x.columns());
  cuda::gather(x.data(), x.rows(), x.columns(), step_.on_device(rows), y.data(), y.rows(),
               stream());
  return y;
}

void CudaOps::scatter_add(Matrix&, const Matrix&, const ExpertRows&) {
  refuse_experts();
}

CudaOps::Matrix CudaOps::zeros(std::int64_t rows, std::int64_t columns) {
  Matrix x = matrix(rows, columns);
  cuda::zeros(x.data(), rows * columns, stream());
  return x;
}

}  // namespace nibble::ops::cuda
