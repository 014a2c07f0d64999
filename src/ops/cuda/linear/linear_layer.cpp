#include "ops/cuda/linear/linear_layer.h"

#include "core/error.h"
#include "core/float16.h"
#include "device/cuda/check.h"
#include "formats/block_sparse.h"
#include "ops/cuda/linear/layer_parts.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/packed/unit_kernels.h"
#include "ops/cuda/sparse/sparse_few.h"
#include "ops/cuda/sparse/sparse_packer.h"
#include "ops/cuda/sparse/tile_packer.h"
#include "ops/cuda/trellis/trellis_packer.h"
#include "ops/cuda/two_of_four/kept_packer.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

// How the inputs of a layer are rounded whose kernels know scales of so many of them, or of a
// token.
InputKey rounding_of(const formats::Scheme& scheme, std::int64_t scale_step,
                     const DeviceTransform* transform) {
  InputKey key;
  key.transform = transform;
  const formats::Activation& activation = scheme.activation;
  if (activation.is_float()) {
    return key;
  }
  key.type = activation.type;
  key.bits = activation.bits;
  key.group = activation.group;
  key.clip = activation.clip;
  key.symmetric = activation.symmetric;
  key.keeps_outliers = activation.keeps_outliers;
  key.tail = scheme.inputs.tail;
  key.scale_step = scale_step;
  return key;
}

// The same of block-sparse rows, whose groups those of activations hold.
std::int64_t sparse_scale_step(const formats::Activation& activation) {
  if (activation.group == 0) {
    return 0;
  }
  return activation.group % kInputPadding == 0 ? kInputPadding : kSparseInputs;
}

// Does `work` for a layer, which messages of failures name.
template <typename Work>
void named(const Linear& layer, const Work& work) {
  try {
    work();
  } catch (const core::Error& error) {
    core::fail(error.kind(), "layer {}: {}", layer.name, error.what());
  }
}

// Rows of weights, which must stay where they are.
UnitRows rows_of(const std::vector<formats::PackedWeight>& weights, bool pairs) {
  UnitRows rows{{}, pairs};
  for (const formats::PackedWeight& weight : weights) {
    rows.weights.push_back(&weight);
  }
  return rows;
}

// Biases of parts [first, last) in the order of their rows; empty where there are none.
std::vector<float> bias_of(const LinearSet& set, std::size_t first, std::size_t last,
                           const UnitRows& rows) {
  bool has_bias = false;
  for (std::size_t part = first; part < last; ++part) {
    has_bias = has_bias || !set.parts[part].bias.empty();
  }
  std::vector<float> bias(has_bias ? static_cast<std::size_t>(rows.count()) : 0);
  for (std::size_t n = 0; n < bias.size(); ++n) {
    const UnitRows::Place place = rows.place(static_cast<std::int64_t>(n));
    const std::vector<float>& of_part = set.parts[first + place.weight].bias;
    bias[n] = of_part.empty() ? 0.0f : of_part[static_cast<std::size_t>(place.row)];
  }
  return bias;
}

}  // namespace

LinearLayer LinearLayer::packed(const LinearSet& set, std::size_t first, std::size_t last,
                                std::shared_ptr<const DeviceTransform> transform,
                                const Schedules& schedules, UnitPacker& packer) {
  const Linear& front = set.parts[first];
  LinearLayer layer;
  layer.layer_ = joint_problem(set, first, last);
  const formats::Scheme& scheme = layer.layer_.scheme;
  named(front, [&] {
    layer.plan_ = plan_layer(linear_shape(scheme, layer.layer_.n, layer.layer_.k), schedules,
                             device_kernels(schedules));
  });
  layer.key_ =
      rounding_of(scheme, scale_step_of(scheme, layer.plan_.shape.format), transform.get());
  if (scheme.activation.stored_scale) {
    layer.key_.scale = formats::input_scale_of(front.weight);
  }
  layer.transform_ = std::move(transform);
  std::vector<formats::PackedWeight> heads;
  for (std::size_t part = first; part < last; ++part) {
    heads.push_back(head_of(set.parts[part].weight));
  }
  const UnitRows rows = rows_of(heads, layer.paired());
  named(front, [&] {
    layer.segments_.emplace_back(rows, layer.plan_, packer);
    layer.add_row_sums();
    layer.set_bias(bias_of(set, first, last, rows));
    layer.add_tail(set, first, last, schedules, packer);
  });
  return layer;
}

LinearLayer LinearLayer::dense(const LinearSet& set, std::size_t first, std::size_t last,
                               std::shared_ptr<Buffer> table, const DenseNeeds& needs) {
  const Linear& front = set.parts[first];
  LinearLayer layer;
  layer.layer_ = joint_problem(set, first, last);
  layer.layer_.exact = needs.exact;
  layer.plan_.device = needs.device;
  layer.products_ = needs.products;
  layer.table_ = std::move(table);
  named(front, [&] {
    if (layer.table_ == nullptr) {
      layer.joined_ = joined_table(set, first, last);
    }
    const std::vector<float> bias = joined_bias(set, first, last);
    layer.set_bias(bias);
    if (front.weight.dense.dtype() == core::DType::kF16) {
      layer.set_half_bias(bias);
    }
  });
  const Buffer& rows = layer.table_ != nullptr ? *layer.table_ : layer.joined_;
  layer.dense_ = {rows.data(), front.weight.dense.dtype(), layer.layer_.n, layer.layer_.k};
  return layer;
}

LinearLayer LinearLayer::sparse(const LinearSet& set, std::size_t first, std::size_t last,
                                const WideNeeds& needs) {
  const Linear& front = set.parts[first];
  LinearLayer layer;
  layer.layer_ = joint_problem(set, first, last);
  layer.plan_.device = needs.device;
  layer.products_ = needs.products;
  const formats::Activation& activation = layer.layer_.scheme.activation;
  layer.key_ = rounding_of(layer.layer_.scheme, sparse_scale_step(activation), nullptr);
  if (activation.stored_scale) {
    layer.key_.scale = formats::input_scale_of(front.weight);
  }
  const bool in_tiles = !tile_units_refusal(layer.layer_.scheme, layer.layer_.k);
  std::vector<formats::PackedWeight> weights;
  for (std::size_t part = first; part < last; ++part) {
    const formats::PackedWeight& weight = set.parts[part].weight;
    weights.push_back(in_tiles ? weight : formats::with_row_pattern(weight));
  }
  const UnitRows rows = rows_of(weights, layer.paired());
  named(front, [&] {
    layer.set_bias(bias_of(set, first, last, rows));
    if (in_tiles) {
      layer.tiles_.emplace(pack_tiles(rows, needs.pool), needs.scratch);
      return;
    }
    const PackedSparse packed =
        pack_sparse(rows, sparse_plan(layer.layer_.n, needs.device.multiprocessors), needs.pool);
    layer.sparse_.emplace(packed, needs.scratch, activation.is_float() ? 0 : kWideTokens);
    core::require(max_sparse_tokens(layer.sparse_->view(), layer.key_.digits()) > 0,
                  core::ErrorKind::kUsage,
                  "the GPU has too little shared memory for {} inputs of block-sparse rows; use "
                  "--device cpu",
                  layer.layer_.k);
  });
  return layer;
}

LinearLayer LinearLayer::two_of_four(const LinearSet& set, std::size_t first, std::size_t last,
                                     const DeviceKernels& device, core::ThreadPool& pool) {
  LinearLayer layer;
  layer.layer_ = joint_problem(set, first, last);
  layer.plan_.device = device;
  layer.key_ = rounding_of(layer.layer_.scheme, 0, nullptr);
  if (layer.layer_.scheme.activation.stored_scale) {
    layer.key_.scale = formats::input_scale_of(set.parts[first].weight);
  }
  std::vector<formats::PackedWeight> weights;
  for (std::size_t part = first; part < last; ++part) {
    weights.push_back(set.parts[part].weight);
  }
  const UnitRows rows = rows_of(weights, layer.paired());
  named(set.parts[first], [&] {
    layer.set_bias(bias_of(set, first, last, rows));
    layer.kept_.emplace(pack_kept(rows, pool));
  });
  return layer;
}

LinearLayer LinearLayer::trellis(const LinearSet& set, std::size_t first, std::size_t last,
                                 std::shared_ptr<const DeviceTransform> transform,
                                 const WideNeeds& needs) {
  LinearLayer layer;
  layer.layer_ = joint_problem(set, first, last);
  layer.plan_.device = needs.device;
  layer.products_ = needs.products;
  layer.key_ = rounding_of(layer.layer_.scheme, 0, transform.get());
  layer.transform_ = std::move(transform);
  std::vector<formats::PackedWeight> weights;
  for (std::size_t part = first; part < last; ++part) {
    weights.push_back(set.parts[part].weight);
  }
  const UnitRows rows = rows_of(weights, layer.paired());
  named(set.parts[first], [&] {
    layer.set_bias(bias_of(set, first, last, rows));
    layer.trellis_.emplace(pack_trellis(rows, needs.pool), needs.scratch);
  });
  return layer;
}

void LinearLayer::add_tail(const LinearSet& set, std::size_t first, std::size_t last,
                           const Schedules& schedules, UnitPacker& packer) {
  if (layer_.scheme.inputs.tail == 0) {
    return;
  }
  std::vector<formats::PackedWeight> tails;
  for (std::size_t part = first; part < last; ++part) {
    tails.push_back(tail_of(set.parts[part].weight));
  }
  const LinearShape shape = linear_shape(tails.front().scheme, layer_.n, tails.front().k);
  segments_.emplace_back(rows_of(tails, paired()),
                         plan_layer(shape, schedules, device_kernels(schedules)), packer);
}

void LinearLayer::add_row_sums() {
  if (!key_.carries_zeros()) {
    return;
  }
  const UnitsView& head = segments_.front().view();
  const std::int64_t step = key_.scale_step;
  steps_ = step == 0 ? 1 : (head.k + step - 1) / step;
  row_sums_ = Buffer(layer_.n * steps_ * static_cast<std::int64_t>(sizeof(float)));
  sum_rows(head, step, row_sums_.as<float>(), nullptr);
  device::cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void LinearLayer::set_bias(std::span<const float> bias) {
  if (!bias.empty()) {
    bias_ = Buffer::of<float>(bias);
  }
}

void LinearLayer::set_half_bias(std::span<const float> bias) {
  std::vector<core::Fp16> halves;
  for (const float value : bias) {
    halves.push_back(core::to_fp16(value));
  }
  if (!halves.empty()) {
    half_bias_ = Buffer::of<core::Fp16>(halves);
  }
}

std::int64_t LinearLayer::bytes() const {
  std::int64_t bytes = bias_.bytes() + half_bias_.bytes() + row_sums_.bytes() + joined_.bytes();
  bytes += sparse_ ? sparse_->bytes() : 0;
  bytes += tiles_ ? tiles_->bytes() : 0;
  bytes += kept_ ? kept_->bytes() : 0;
  bytes += trellis_ ? trellis_->bytes() : 0;
  for (const UnitSegment& segment : segments_) {
    bytes += segment.bytes();
  }
  return bytes;
}

LayerProblem LinearLayer::problem(std::int64_t m, const Epilogue& epilogue) const {
  LayerProblem problem{layer_, plan_};
  problem.linear.m = m;
  problem.linear.epilogue = epilogue;
  return problem;
}

LayerWeights LinearLayer::weights() const {
  return {dense_,
          segments_,
          sparse_ ? &*sparse_ : nullptr,
          tiles_ ? &*tiles_ : nullptr,
          kept_ ? &*kept_ : nullptr,
          trellis_ ? &*trellis_ : nullptr,
          products_.get(),
          half_bias_.empty() ? nullptr : half_bias_.as<core::Fp16>()};
}

InputKey LinearLayer::key(std::int64_t m) const {
  const LayerProblem wanted = problem(m);
  const auto form = choose_kernel(linear_kernels(), wanted).input_form(wanted);
  InputKey key = key_;
  key.matrix = !form;
  key.form = form.value_or(key.form);
  return key;
}

Refusal LinearLayer::refusal(std::int64_t m, const Epilogue& epilogue) const {
  return choose_kernel(linear_kernels(), problem(m)).refusal(problem(m, epilogue));
}

bool LinearLayer::reads_rows(std::int64_t m, std::optional<NormKind> norm) const {
  const LayerProblem wanted = problem(m);
  const LinearKernel& kernel = choose_kernel(linear_kernels(), wanted);
  return kernel.reads_rows != nullptr && (key_.is_direct() || key_.is_direct_in_order()) &&
         kernel.reads_rows(wanted, {norm, key_.transform != nullptr});
}

const std::uint16_t* LinearLayer::input_order() const {
  return transform_ == nullptr ? nullptr : transform_->order_alone();
}

bool LinearLayer::is_chainable() const {
  return segments_.size() == 1 && layer_.scheme.activation.is_float() && transform_ == nullptr &&
         cuda::is_chainable(segments_.front().view()) && chains_run();
}

std::optional<ChainedLayer> LinearLayer::chained(const LinearInput& x) const {
  if (x.m != 1 || !is_chainable()) {
    return std::nullopt;
  }
  ChainedLayer layer;
  layer.weight = segments_.front().view();
  layer.bias = bias_.empty() ? nullptr : bias_.as<float>();
  if (x.rows.x != nullptr) {
    layer.row = x.rows.x;
    layer.norm = x.rows.norm;
  } else if (x.target.codes != nullptr && x.target.form == InputForm::kInt8Lanes &&
             x.target.digits() == 2 && x.target.group == kInputPadding) {
    layer.codes = {2, x.target.codes, x.target.scales};
  } else {
    return std::nullopt;
  }
  return layer;
}

void LinearLayer::run(const LinearInput& x, GemmOutput output, cudaStream_t stream) const {
  const LayerProblem wanted = problem(x.m);
  output.bias = bias_.empty() ? nullptr : bias_.as<float>();
  choose_kernel(linear_kernels(), wanted).run(wanted, weights(), x, output, stream);
  add_corrections(x, output.y, output.stride, stream);
}

bool LinearLayer::writes_bfloat16(std::int64_t m) const {
  return dense_.type == core::DType::kBF16 && bias_.empty() &&
         choose_kernel(linear_kernels(), problem(m)).run_bfloat16 != nullptr;
}

void LinearLayer::run_bfloat16(const LinearInput& x, const Bfloat16Output& output,
                               cudaStream_t stream) const {
  const LayerProblem wanted = problem(x.m);
  choose_kernel(linear_kernels(), wanted).run_bfloat16(wanted, weights(), x, output, stream);
}

void LinearLayer::add_corrections(const LinearInput& x, float* y, std::int64_t ldy,
                                  cudaStream_t stream) const {
  if (key_.carries_zeros()) {
    const DenseView sums{row_sums_.data(), core::DType::kF32, layer_.n, steps_};
    cuda::dense(sums, x.shifts, x.m, y, ldy, nullptr, stream, {-1.0f, true});
  }
  if (key_.keeps_outliers) {
    add_outliers(segments_.front().view(), x.outliers, x.m, y, ldy, stream);
  }
}

}  // namespace nibble::ops::cuda
