#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/elementwise/gated_bfloat16.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/elementwise/vectors.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using device::cuda::Buffer;

constexpr std::int64_t kNumbersOfRow =
    6;  // that a step puts: token, position, type, rows, and room
constexpr std::int64_t kListedPages = 1 << 18;  // of all sequences of a step; they may share some

bool is_single(const SequenceSlice<KvSequence>& slice) {
  return slice.rows == 1;
}

bool of_single_rows(const Batch<KvSequence>& batch) {
  return std::all_of(batch.slices.begin(), batch.slices.end(), is_single);
}

PackedAttention packed_shape(const AttentionSpec& spec) {
  core::require(spec.mask.bidirectional && spec.inverse_frequency.empty() && spec.q_norm.empty() &&
                    spec.k_norm.empty() && spec.key_centre.empty(),
                ErrorKind::kUsage,
                "on a GPU texts without a cache see all of themselves, without rotation, norms or "
                "centres of queries and keys; use --device cpu");
  return {.heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .head_dim = spec.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim))};
}

}  // namespace

CudaOps::CudaOps(const StepLimits& limits, std::shared_ptr<const Schedules> schedules, int gpu,
                 bool exact)
    : device_(device::require_cuda_device(gpu)),
      limits_(limits),
      schedules_(schedules ? std::move(schedules)
                           : std::make_shared<const Schedules>(origin_of(device_))),
      exact_(exact),
      step_(kNumbersOfRow * limits.rows) {}

void CudaOps::set_kv_pool(std::unique_ptr<KvPool> pool) {
  kv_ = std::move(pool);
  if (kv_ && !turn_) {  // layers know where it lies
    turn_.emplace(kv_->layout().head_dim);
  }
}

CudaOps::Step CudaOps::begin_step(const Batch<KvSequence>& batch,
                                  std::span<const std::int32_t> rows,
                                  std::span<const std::int64_t> windows, std::int64_t group) {
  const auto m = static_cast<std::int64_t>(batch.tokens.size());
  core::require(m <= limits_.rows, ErrorKind::kFailed, "{} tokens in a step; at most {} are taken",
                m, limits_.rows);
  upload_.begin();
  step_.clear();
  const Step step{step_.put(batch.tokens), step_.put(batch.positions), step_.put(rows),
                  step_.put(batch.types)};
  step_.add_to(upload_);
  splits_ = false;
  kernels_ = 0;
  waited_ = false;
  experts_.clear();
  if (texts_.plan(batch, limits_.rows, upload_)) {
    kernels_ = static_cast<int>(texts_.count());
  } else {
    plan_sequences(batch, windows, group);
  }
  upload_.start(stream());
  return step;
}

void CudaOps::plan_sequences(const Batch<KvSequence>& batch, std::span<const std::int64_t> windows,
                             std::int64_t group) {
  std::vector<PlannedSequence> sequences;
  sequences.reserve(batch.slices.size());
  for (const auto& slice : batch.slices) {
    sequences.push_back({slice.cache->pages, slice.position, slice.row, slice.rows});
  }
  for (const std::int64_t window : windows) {
    auto at = plans_.find(window);
    if (at == plans_.end()) {
      at = plans_
               .emplace(window,
                        PlanBuffer({limits_.rows, kListedPages, limits_.items, limits_.items}))
               .first;
    }
    const AttentionPlan plan = plan_attention(sequences, group, window);
    splits_ = splits_ || plan.partials > 0;
    kernels_ = 4 * kernels_ + (plan.partials > 0 ? 2 : 0) + (plan.brief() ? 1 : 0);
    at->second.put(plan, upload_);
  }
}

const CudaOps::Matrix& CudaOps::transformed(Input& input, const DeviceTransform* transform) {
  if (transform == nullptr) {
    return *input.matrix_;
  }
  for (const auto& [known, matrix] : input.transformed_) {
    if (known == transform) {
      return matrix;
    }
  }
  Matrix y = matrix(input.m_, input.matrix_->columns());
  transform_inputs(transform->view(), input.matrix_->data(), y.data(), input.m_, stream());
  return input.transformed_.emplace_back(transform, std::move(y)).second;
}

// One simple form comes straight from the operator; all else by way of a matrix.
template <typename ToTarget, typename ToMatrix, typename Writes>
CudaOps::Input CudaOps::make_input(const LinearSet& set, std::int64_t m, const ToTarget& to_target,
                                   const ToMatrix& to_matrix, const Writes& writes) {
  const Layers& layers = layers_of(set);
  std::vector<InputKey> keys;
  for (const LinearLayer& part : layers.parts) {
    const InputKey key = part.key(m);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      keys.push_back(key);
    }
  }
  Input input;
  input.m_ = m;
  if (keys.size() == 1 && keys.front().is_direct() && layers.adapters.empty() &&
      writes(keys.front())) {
    input.forms_.emplace_back(pool_, keys.front(), m, layers.k);
    to_target(input.forms_.front().target());
    return input;
  }
  input.matrix_ = to_matrix();
  for (const InputKey& key : keys) {
    if (!key.matrix) {
      input.forms_.emplace_back(pool_, key, m, layers.k);
      input.forms_.back().round(transformed(input, key.transform).data(), stream());
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

bool CudaOps::make_norms(const LinearSet& set, std::int64_t m, NormKind kind) const {
  const Layers& layers = layers_of(set);
  return layers.adapters.empty() &&
         std::all_of(layers.parts.begin(), layers.parts.end(),
                     [&](const LinearLayer& part) { return part.makes_norms(m, kind); });
}

CudaOps::Input CudaOps::norm(const Matrix& x, const Norm& norm, const LinearSet& set) {
  const NormWeights& weights = weights_of(norm);
  if (make_norms(set, x.rows(), weights.kind)) {
    Input input;
    input.m_ = x.rows();
    input.rows_ = {x.data(), &weights};
    return input;
  }
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

CudaOps::Input CudaOps::post_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                                  const LinearSet& set) {
  Matrix y = matrix(x.rows(), x.columns());
  add_norm_matrix(x.data(), delta.data(), weights_of(norm), y.data(), x.rows(), x.columns(),
                  stream());
  x = std::move(y);
  return input(x, set);
}

CudaOps::Matrix CudaOps::norm_matrix(const Matrix& x, const Norm& norm) {
  Matrix y = matrix(x.rows(), x.columns());
  cuda::norm_matrix(x.data(), weights_of(norm), y.data(), x.rows(), x.columns(), stream());
  return y;
}

void CudaOps::add(Matrix& x, const Matrix& delta) {
  cuda::add(x.data(), delta.data(), x.rows() * x.columns(), stream());
}

LinearInput CudaOps::Input::of(const LinearLayer& layer) const {
  const InputKey key = layer.key(m_);
  if (rows_.x != nullptr || key.matrix) {
    LinearInput x;
    x.m = m_;
    x.rows = rows_;
    x.matrix = matrix_ ? matrix_->data() : nullptr;
    return x;
  }
  return std::find_if(forms_.begin(), forms_.end(),
                      [&](const DeviceInput& each) { return each.key() == key; })
      ->view();
}

CudaOps::Matrix CudaOps::linear(Input& input, const LinearSet& set) {
  const Layers& layers = layers_of(set);
  Matrix y = matrix(input.m_, layers.n);
  y.set_paired(layers.parts.front().paired());
  std::int64_t column = 0;
  for (const LinearLayer& part : layers.parts) {
    part.run(input.of(part), {.y = y.data() + column, .stride = layers.n}, stream());
    column += part.n();
  }
  for (const Adapter& adapter : layers.adapters) {
    const Matrix down = matrix(input.m_, adapter.a.n);
    dense(adapter.a, input.matrix_->data(), input.m_, down.data(), down.columns(), nullptr,
          stream());
    dense(adapter.b, down.data(), input.m_, y.data() + adapter.column, layers.n, nullptr, stream(),
          {adapter.scale, true});
  }
  return y;
}

// What a set has beside one layer is added to a matrix, and so is what reads the result.
bool CudaOps::fuses(const Layers& layers, std::int64_t m, const Epilogue& epilogue) {
  return layers.parts.size() == 1 && layers.adapters.empty() &&
         !layers.parts.front().refusal(m, epilogue);
}

std::optional<CudaOps::Matrix> CudaOps::linear(Input& input, const LinearSet& set,
                                               const Residual<Matrix>& onto) {
  const Layers& layers = layers_of(set);
  if (!fuses(layers, input.m_, {.adds = true})) {
    return linear(input, set);
  }
  const LinearLayer& layer = layers.parts.front();
  layer.run(input.of(layer), {.y = onto.x.data(), .stride = onto.x.columns(), .adds = true},
            stream());
  return std::nullopt;
}

CudaOps::Input CudaOps::attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                                  const Batch<KvSequence>& batch, const LinearSet& set) {
  if (texts_.count() > 0) {
    return attend_in_texts(qkv, spec, set);
  }
  const bool decode = of_single_rows(batch);
  return make_input(
      set, qkv.rows(),
      [&](const InputTarget& target) {
        attend(qkv, spec, layer, batch, {nullptr, target});
      },
      [&] {
        Matrix heads = matrix(qkv.rows(), spec.heads * spec.head_dim);
        attend(qkv, spec, layer, batch, {heads.data(), {}});
        return heads;
      },
      [&](const InputKey& key) {
        return (has_values(key.form) || key.type == &formats::kIntegerCodes) &&
               attention_writes(layer_of(spec), key.form, key.group, decode);
      });
}

// In 16 bits. Results come in the form of the layers where that is what attention writes.
CudaOps::Input CudaOps::attend_in_texts(const Matrix& qkv, const AttentionSpec& spec,
                                        const LinearSet& set) {
  const PackedAttention shape = packed_shape(spec);
  const std::int64_t m = qkv.rows();
  const std::int64_t width = spec.heads * spec.head_dim;
  const DeviceInput halves(pool_, {.form = InputForm::kFloat16}, m, qkv.columns());
  cuda::input(qkv.data(), halves.target(), m, qkv.columns(), stream());
  const auto attend = [&](core::Fp16* heads) {
    packed_attention(shape, reinterpret_cast<const __half*>(halves.target().values),
                     padded_columns(qkv.columns()), texts_.on_device(), texts_.count(),
                     reinterpret_cast<__half*>(heads), stream());
  };
  return make_input(
      set, m,
      [&](const InputTarget& target) {
        if (target.form == InputForm::kFloat16 && width % kInputPadding == 0) {
          return attend(target.values);
        }
        const PooledBuffer heads(pool_, m * width * 2);
        attend(heads.as<core::Fp16>());
        cuda::input(heads.as<core::Fp16>(), target, m, width, stream());
      },
      [&] {
        const PooledBuffer heads(pool_, m * width * 2);
        attend(heads.as<core::Fp16>());
        Matrix y = matrix(m, width);
        widen(heads.as<core::Fp16>(), y.data(), m * width, stream());
        return y;
      },
      [&](const InputKey& key) {  // float16 has not enough digits for 16 bits
        return width % 4 == 0 && (has_values(key.form) || key.bits < 16);
      });
}

void CudaOps::attend(const Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                     const Batch<KvSequence>& batch, const AttentionOutput& output) {
  const AttentionLayer& view = layer_of(spec);
  DevicePlan plan = plans_.at(spec.mask.window).plan();
  const std::int64_t m = qkv.rows();
  if (!splits_) {
    plan.max_partials = 0;
    plan.max_items = std::min(plan.max_items, m);  // a row has one, or shares one
  }
  if (partials_.empty()) {
    partials_ = Buffer(partial_floats(limits_.items, spec.heads, spec.head_dim) * 4);
  }
  auto* const partials = partials_.as<float>();
  std::byte* const pages = kv_->layer(layer);
  if (of_single_rows(batch) &&
      append_attend(view, qkv.data(), plan, m, pages, partials, output, stream())) {
    return;
  }
  const std::int64_t width = spec.heads * spec.head_dim;
  const bool halves = view.layout.fragments();
  const PooledBuffer queries(pool_, m * width * (halves ? 2 : 4));
  const Queries q{halves ? queries.as<core::Fp16>() : nullptr,
                  halves ? nullptr : queries.as<float>()};
  append(view, qkv.data(), plan, m, q, pages, stream());
  if (std::any_of(batch.slices.begin(), batch.slices.end(), is_single)) {
    attend_decode(view, q, pages, plan, partials, output, stream());
  }
  if (!of_single_rows(batch)) {
    attend_prefill(view, q, pages, plan, output, stream());
  }
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
  const std::int64_t m = gate_up.rows();
  const std::int64_t width = gate_up.columns() / 2;
  const GateUp both(gate_up.data(), gate_up.paired());
  return make_input(
      set, m,
      [&](const InputTarget& target) {
        cuda::gated_activation(both, activation, target, m, width, stream());
      },
      [&] { return gated_matrix(gate_up, activation); });
}

CudaOps::Matrix CudaOps::gated_matrix(const Matrix& gate_up, MlpActivation activation) {
  Matrix y = matrix(gate_up.rows(), gate_up.columns() / 2);
  gated_activation_matrix({gate_up.data(), gate_up.paired()}, activation, y.data(), y.rows(),
                          y.columns(), stream());
  return y;
}

CudaOps::Input CudaOps::linear(Input& input, const LinearSet& set, const ActivateInto& into) {
  return into.gated ? linear_gated(input, set, into)
                    : mlp_activation(linear(input, set), into.activation, into.next);
}

CudaOps::Input CudaOps::linear_gated(Input& input, const LinearSet& set, const ActivateInto& into) {
  const Layers& layers = layers_of(set);
  const std::int64_t m = input.m_;
  if (!fuses(layers, m, {.gate = into.activation})) {
    if (layers.parts.size() == 1 && layers.adapters.empty() && layers.n % 8 == 0 &&
        layers.parts.front().writes_bfloat16(m)) {
      return gated_through_bfloat16(input, layers.parts.front(), into);
    }
    return gated_activation(linear(input, set), into.activation, into.next);
  }
  const LinearLayer& layer = layers.parts.front();
  const std::int64_t width = layer.n() / 2;
  bool has_sums = true;
  const auto run = [&](core::Fp16* values, bool tiles) {
    layer.run(input.of(layer), {.half = {values, width, into.activation, true, tiles}}, stream());
  };
  Input result = make_input(
      into.next, m,
      [&](const InputTarget& target) {
        if (target.form != InputForm::kFloat16 && is_half(target.form) &&
            width % kInputPadding == 0) {
          has_sums = false;
          return run(target.values, true);
        }
        const PooledBuffer halves(pool_, m * width * 2);
        run(halves.as<core::Fp16>(), false);
        cuda::input(halves.as<core::Fp16>(), target, m, width, stream());
      },
      [&] { return gated_matrix(linear(input, set), into.activation); },
      [](const InputKey& key) {  // float16 has not enough digits for 16 bits, or range for bfloat16
        return is_half(key.form) || (!has_values(key.form) && key.bits < 16);
      });
  if (!has_sums) {
    result.forms_.front().drop_sums();
  }
  return result;
}

CudaOps::Input CudaOps::gated_through_bfloat16(Input& input, const LinearLayer& layer,
                                               const ActivateInto& into) {
  const std::int64_t m = input.m_;
  const std::int64_t width = layer.n() / 2;
  const PooledBuffer gate_up(pool_, m * layer.n() * 2);
  auto* const values = gate_up.as<std::uint16_t>();
  layer.run_bfloat16(input.of(layer), {values, layer.n()}, stream());
  return make_input(
      into.next, m,
      [&](const InputTarget& target) {
        gated_bfloat16(values, into.activation, target, m, width, stream());
      },
      [&] {
        Matrix y = matrix(m, width);
        gated_bfloat16_matrix(values, into.activation, y.data(), m, width, stream());
        return y;
      },
      [](const InputKey& key) { return has_values(key.form); });
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

CudaOps::Matrix CudaOps::gather(const Matrix& x, std::span<const std::int32_t> rows) {
  Matrix y = matrix(static_cast<std::int64_t>(rows.size()), x.columns());
  const std::int32_t* of_expert = experts_.rows(rows);
  cuda::gather(x.data(), x.rows(), x.columns(),
               of_expert == nullptr ? step_.on_device(rows) : of_expert, y.data(), y.rows(),
               stream());
  return y;
}

void CudaOps::scatter_add(Matrix& sum, const Matrix& x, const ExpertRows& expert) {
  cuda::scatter_add(sum.data(), sum.rows(), sum.columns(), x.data(), experts_.rows(expert.rows),
                    experts_.weights(expert), x.rows(), stream());
}

CudaOps::Matrix CudaOps::zeros(std::int64_t rows, std::int64_t columns) {
  Matrix x = matrix(rows, columns);
  cuda::zeros(x.data(), rows * columns, stream());
  return x;
}

}  // namespace nibble::ops::cuda
