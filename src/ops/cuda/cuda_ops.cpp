#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/attention/packed/packed_float.h"
#include "ops/cuda/cuda_ops_input.h"
#include "ops/cuda/elementwise/input_target.h"
#include "ops/cuda/elementwise/ordered_rows.h"
#include "ops/cuda/elementwise/vectors.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using device::cuda::Buffer;

constexpr std::int64_t kNumbersOfRow =
    6;  // that a step puts: token, position, type, rows, and room

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
                 const Precision& precision)
    : device_(device::require_cuda_device(gpu)),
      limits_(limits),
      schedules_(schedules ? std::move(schedules)
                           : std::make_shared<const Schedules>(origin_of(device_))),
      precision_(precision),
      step_(kNumbersOfRow * limits.rows) {
  if (!precision.chained) {
    keep_layers_apart();
  }
}

void CudaOps::set_kv_pool(std::unique_ptr<KvPool> pool) {
  kv_ = std::move(pool);
  if (kv_ && !turn_) {  // layers know where it lies
    turn_.emplace(kv_->layout().head_dim);
  }
}

CudaOps::Step CudaOps::begin_step(const Batch<KvSequence>& batch,
                                  std::span<const std::int32_t> rows,
                                  std::span<const std::int64_t> windows, std::int64_t group,
                                  const RankedRows* taken) {
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
  plan_memories(batch);
  TakenTokens tokens;
  if (taken != nullptr) {
    tokens = {step_.on_device(step.tokens), m, taken->tokens.as<const RankedToken>(), taken->rows,
              taken->count};
  }
  upload_.start(stream(), tokens);
  return step;
}

void CudaOps::plan_sequences(const Batch<KvSequence>& batch, std::span<const std::int64_t> windows,
                             std::int64_t group) {
  planned_.clear();
  for (const auto& slice : batch.slices) {
    planned_.push_back({slice.cache->pages, slice.position, slice.row, slice.rows});
  }
  for (const std::int64_t window : windows) {
    auto at = plans_.find(window);
    if (at == plans_.end()) {
      at = plans_
               .emplace(window,
                        PlanBuffer({limits_.rows, kListedPages, limits_.items, limits_.items}))
               .first;
    }
    plan_.assign(planned_, group, window);
    splits_ = splits_ || plan_.partials > 0;
    at->second.put(plan_, upload_);
    note_kernels(at->second, plan_.partials > 0, kv_ == nullptr ? 0 : kv_->layout().kv_heads,
                 group);
  }
}

void CudaOps::note_kernels(const PlanBuffer& plan, bool splits, std::int64_t kv_heads,
                           std::int64_t group) {
  const bool by_warps = kv_heads > 0 && decodes_by_warps(plan.plan(), kv_heads * group, kv_heads);
  kernels_ = 4 * kernels_ + (splits ? 2 : 0) + (by_warps ? 1 : 0);
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

MutableMatrixView CudaOps::view(const Matrix& x) const {
  return x.is_half() ? MutableMatrixView(x.halves(), range_.on_device())
                     : MutableMatrixView(x.data());
}

CudaOps::Matrix CudaOps::embed(const core::Tensor& table, std::span<const std::int32_t> ids) {
  Matrix x = matrix(static_cast<std::int64_t>(ids.size()), table.dim(1), precision_.matrices);
  cuda::embed(embedding(table), step_.on_device(ids), 0, view(x), x.rows(), stream());
  return x;
}

CudaOps::Matrix CudaOps::embed_part(const core::Tensor& table, std::span<const std::int32_t> ids,
                                    std::int64_t first) {
  Matrix x = matrix(static_cast<std::int64_t>(ids.size()), table.dim(1));
  cuda::embed_part(embedding(table), step_.on_device(ids), first, x.data(), x.rows(), stream());
  return x;
}

void CudaOps::add_rows(Matrix& x, const core::Tensor& table, std::span<const std::int32_t> ids,
                       std::int64_t offset) {
  cuda::add_rows(embedding(table), step_.on_device(ids), offset, view(x), x.rows(), stream());
}

const std::uint16_t* CudaOps::order_of(const Layers& layers) {
  const std::uint16_t* const order = layers.parts.front().input_order();
  const bool same =
      std::all_of(layers.parts.begin(), layers.parts.end(),
                  [&](const LinearLayer& part) { return part.input_order() == order; });
  return same && layers.adapters.empty() ? order : nullptr;
}

bool CudaOps::read_rows(const Layers& layers, std::int64_t m, std::optional<NormKind> norm) {
  const std::uint16_t* const order = order_of(layers);
  return layers.adapters.empty() &&
         std::all_of(layers.parts.begin(), layers.parts.end(), [&](const LinearLayer& part) {
           return part.input_order() == order && part.reads_rows(m, norm);
         });
}

bool CudaOps::read_stream(const LinearSet& set, const Matrix& x) const {
  const Layers& layers = layers_of(set);
  return x.is_half() && x.columns() % kInputPadding == 0 && layers.adapters.empty() &&
         std::all_of(layers.parts.begin(), layers.parts.end(), [&](const LinearLayer& part) {
           const InputKey key = part.key(x.rows());
           return key.form == InputForm::kFloat16 && key.is_direct();
         });
}

CudaOps::Input CudaOps::norm(const Matrix& x, const Norm& norm, const LinearSet& set) {
  const NormWeights& weights = weights_of(norm);
  const Layers& layers = layers_of(set);
  const std::uint16_t* const order = order_of(layers);
  if (!x.is_half() && read_rows(layers, x.rows(), weights.kind)) {
    Input input;
    input.m_ = x.rows();
    input.rows_ = {x.data(), &weights, order};
    return input;
  }
  if (!x.is_half() && order != nullptr) {
    return norm_in_order(x, weights, set, order);
  }
  return make_input(
      {set, x.rows(), x.type()},
      [&](const InputTarget& target) {
        cuda::norm(view(x), weights, target, x.rows(), x.columns(), stream());
      },
      [&] { return norm_into(x, norm, MatrixType::kFloat32); });
}

CudaOps::Input CudaOps::norm_in_order(const Matrix& x, const NormWeights& weights,
                                      const LinearSet& set, const std::uint16_t* order) {
  const std::int64_t m = x.rows();
  const std::int64_t k = x.columns();
  return make_input(
      {.set = set, .m = m, .ordered = true},
      [&](const InputTarget& target) {
        ordered_norm(x.data(), weights, order, target, m, k, stream());
      },
      [&] {
        Matrix y = matrix(m, k);
        ordered_norm_matrix(x.data(), weights, order, y.data(), m, k, stream());
        return y;
      });
}

CudaOps::Input CudaOps::add_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                                 const LinearSet& set) {
  return add_norm_by(
      x, norm, set,
      [&](const NormWeights& weights, const InputTarget& target) {
        cuda::add_norm(view(x), view(delta), weights, target, x.rows(), x.columns(), stream());
      },
      [&] { add(x, delta); });
}

CudaOps::Input CudaOps::post_norm(Matrix& x, const Matrix& delta, const Norm& norm,
                                  const LinearSet& set) {
  const NormWeights& weights = weights_of(norm);
  Matrix y = matrix(x.rows(), x.columns(), x.type());
  if (read_stream(set, x)) {
    post_norm_matrix(view(x), view(delta), weights, view(y), x.rows(), x.columns(), stream());
    x = std::move(y);
    Input result;
    result.m_ = x.rows();
    result.type_ = x.type();
    result.stream_ = x.halves();
    return result;
  }
  Input result = make_input(
      {set, x.rows(), x.type()},
      [&](const InputTarget& target) {
        cuda::post_norm(view(x), view(delta), weights, view(y), target, x.rows(), x.columns(),
                        stream());
      },
      [&] {
        post_norm_matrix(view(x), view(delta), weights, view(y), x.rows(), x.columns(), stream());
        return copied(y);
      });
  x = std::move(y);
  return result;
}

CudaOps::Matrix CudaOps::norm_into(const Matrix& x, const Norm& norm, MatrixType type) {
  Matrix y = matrix(x.rows(), x.columns(), type);
  cuda::norm_matrix(view(x), weights_of(norm), view(y), x.rows(), x.columns(), stream());
  return y;
}

CudaOps::Matrix CudaOps::norm_matrix(const Matrix& x, const Norm& norm) {
  return norm_into(x, norm, x.type());
}

void CudaOps::add(Matrix& x, const Matrix& delta) {
  cuda::add(view(x), view(delta), x.count(), stream());
}

CudaOps::Input CudaOps::attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                                  const Batch<KvSequence>& batch, const LinearSet& set) {
  if (texts_.count() > 0) {
    return precision_.float_texts && !qkv.is_half() ? attend_in_float(qkv, spec, set)
                                                    : attend_in_texts(qkv, spec, set);
  }
  if (std::optional<Input> result = attend_chained(qkv, spec, layer, batch, set)) {
    return std::move(*result);
  }
  const bool decode = of_single_rows(batch);
  return make_input(
      {set, qkv.rows()},
      [&](const InputTarget& target) {
        attend(qkv, spec, layer, batch, {nullptr, target});
      },
      [&] {
        Matrix heads = matrix(qkv.rows(), spec.heads * spec.head_dim);
        attend(qkv, spec, layer, batch, {heads.data(), {}});
        return heads;
      },
      [&](const InputKey& key) {
        return attention_writes(layer_of(spec), plain_target(key, nullptr, nullptr), decode);
      });
}

// Of one token, where it may wait for the layers of the set, which read a row.
std::optional<CudaOps::Input> CudaOps::attend_chained(const Matrix& qkv, const AttentionSpec& spec,
                                                      std::int64_t layer,
                                                      const Batch<KvSequence>& batch,
                                                      const LinearSet& set) {
  if (qkv.rows() != 1 || qkv.is_half() || !of_single_rows(batch) || !reads_chained_row(set)) {
    return std::nullopt;
  }
  ChainedAttention attention{layer_of(spec), qkv.data(), plans_.at(spec.mask.window).plan(),
                             kv_->layer(layer)};
  Input result = chained_row(spec.heads * spec.head_dim);
  attention.y = result.matrix_->data();
  if (!pending_.takes(attention)) {
    return std::nullopt;
  }
  pending_.add(attention, stream_.get());
  return result;
}

// In 16 bits. Results come in the form of the layers where that is what attention writes.
CudaOps::Input CudaOps::attend_in_texts(const Matrix& qkv, const AttentionSpec& spec,
                                        const LinearSet& set) {
  PackedAttention shape = packed_shape(spec);
  if (qkv.is_half()) {
    shape.saturated = range_.on_device();
  }
  const std::int64_t m = qkv.rows();
  const std::int64_t width = spec.heads * spec.head_dim;
  Matrix copy;
  if (!qkv.is_half()) {
    copy = matrix(m, qkv.columns(), MatrixType::kFloat16);
    convert(view(qkv), copy.halves(), m, copy.columns(), stream());
  }
  const Matrix& halves = qkv.is_half() ? qkv : copy;
  const auto attend = [&](core::Fp16* heads) {
    packed_attention(shape, reinterpret_cast<const __half*>(halves.halves()), halves.columns(),
                     texts_.on_device(), texts_.count(), reinterpret_cast<__half*>(heads),
                     stream());
  };
  return make_input(
      {set, m, qkv.type()},
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
        convert(heads.as<core::Fp16>(), y.data(), m, width, stream());
        return y;
      },
      [&](const InputKey& key) {  // float16 has not enough digits for 16 bits
        return has_values(key.form) || key.bits < 16;
      });
}

CudaOps::Input CudaOps::attend_in_float(const Matrix& qkv, const AttentionSpec& spec,
                                        const LinearSet& set) {
  Matrix heads = matrix(qkv.rows(), spec.heads * spec.head_dim);
  packed_attention_float(packed_shape(spec), qkv.data(), qkv.columns(), texts_.on_device(),
                         texts_.count(), heads.data(), stream());
  return input(heads, set);
}

void CudaOps::attend(const Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                     const Batch<KvSequence>& batch, const AttentionOutput& output) {
  const AttentionLayer& view = layer_of(spec);
  const std::int64_t m = qkv.rows();
  const DevicePlan plan = plan_of_step(plans_.at(spec.mask.window), m, splits_);
  float* const partials = partials_of(spec);
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

DevicePlan CudaOps::plan_of_step(const PlanBuffer& buffer, std::int64_t m, bool splits) {
  DevicePlan plan = buffer.plan();
  if (!splits) {
    plan.max_partials = 0;
    plan.max_items = std::min(plan.max_items, m);  // a row has one, or shares one
  }
  return plan;
}

float* CudaOps::partials_of(const AttentionSpec& spec) {
  if (partials_.empty()) {
    partials_ = Buffer(partial_floats(limits_.items, spec.heads, spec.head_dim) * 4);
  }
  return partials_.as<float>();
}

CudaOps::Input CudaOps::input(const Matrix& x, const LinearSet& set) {
  return make_input(
      {set, x.rows(), x.type()},
      [&](const InputTarget& target) {
        cuda::input(view(x), target, x.rows(), x.columns(), stream());
      },
      [&] { return copied(x); });
}

CudaOps::Matrix CudaOps::copied(const Matrix& x) {
  if (x.is_half()) {
    Matrix y = matrix(x.rows(), x.columns());
    convert(view(x), view(y), x.rows(), x.columns(), stream());
    return y;
  }
  Matrix y = zeros(x.rows(), x.columns());
  add(y, x);
  return y;
}

CudaOps::Matrix CudaOps::gather(const Matrix& x, std::span<const std::int32_t> rows) {
  Matrix y = matrix(static_cast<std::int64_t>(rows.size()), x.columns());
  const std::int32_t* of_expert = experts_.rows(rows);
  cuda::gather(view(x), x.rows(), x.columns(),
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
