#include "ops/cuda/device_linear.h"

#include <algorithm>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/packed/unit_kernels.h"
#include "ops/input_transform.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

// How few tokens are wanted by a layer whose weights lie in units of this format.
InputKey few_tokens_key(const formats::Scheme& scheme, const UnitFormat& format,
                        const DeviceTransform* transform) {
  InputKey key;
  key.transform = transform;
  const formats::Activation& activation = scheme.activation;
  if (activation.is_float()) {
    return key;
  }
  key.bits = activation.bits;
  key.group = activation.group;
  key.clip = activation.clip;
  key.symmetric = activation.symmetric;
  key.keeps_outliers = activation.keeps_outliers;
  key.tail = scheme.inputs.tail;
  key.scale_step = scale_step_of(scheme, format);
  return key;
}

void refuse_unknown(const Linear& part) {
  const formats::Scheme& scheme = part.weight.scheme;
  core::require(formats::is_dense(scheme) || has_units(scheme), core::ErrorKind::kUsage,
                "layer {}: {} has no kernels on a GPU yet; use --device cpu", part.name, scheme);
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

// Whether the parts of a set of pairs stand row by row. Adapters add to parts.
bool in_pairs(const LinearSet& set) {
  return set.pairs && set.parts.size() == 2 && !set.parts[0].low_rank && !set.parts[1].low_rank &&
         set.parts[0].weight.n == set.parts[1].weight.n && set.parts[0].weight.n % kPairRows == 0;
}

}  // namespace

std::size_t joint_parts(const LinearSet& set, std::size_t first) {
  const formats::Scheme& scheme = set.parts[first].weight.scheme;
  std::size_t last = first + 1;
  if (formats::is_dense(scheme)) {
    return 1;
  }
  const InputTransform transform(set.parts[first].weight);
  while (last < set.parts.size() && set.parts[last].weight.scheme == scheme &&
         InputTransform(set.parts[last].weight) == transform) {
    ++last;
  }
  return last - first;
}

DeviceLinear DeviceLinear::packed(const LinearSet& set, std::size_t first, std::size_t last,
                                  std::shared_ptr<const DeviceTransform> transform,
                                  const Schedules& schedules, UnitPacker& packer) {
  DeviceLinear linear;
  const Linear& front = set.parts[first];
  refuse_unknown(front);
  linear.scheme_ = front.weight.scheme;
  linear.few_ = few_tokens_key(linear.scheme_, unit_format_of(linear.scheme_), transform.get());
  linear.transform_ = std::move(transform);
  linear.k_ = head_inputs(linear.scheme_, front.weight.k);
  linear.paired_ = last - first == 2 && in_pairs(set);
  std::vector<formats::PackedWeight> heads;
  bool has_bias = false;
  for (std::size_t part = first; part < last; ++part) {
    heads.push_back(head_of(set.parts[part].weight));
    has_bias = has_bias || !set.parts[part].bias.empty();
  }
  UnitRows rows{{}, linear.paired_};
  for (const formats::PackedWeight& head : heads) {
    rows.weights.push_back(&head);
  }
  linear.n_ = rows.count();
  named(front, [&] {
    linear.add_units(rows, packer);
    linear.add_tables(rows, packer.pool());
    linear.add_row_sums();
  });
  if (has_bias) {
    std::vector<float> bias(static_cast<std::size_t>(linear.n_));
    for (std::int64_t n = 0; n < linear.n_; ++n) {
      const UnitRows::Place place = rows.place(n);
      const std::vector<float>& of_part = set.parts[first + place.weight].bias;
      bias[static_cast<std::size_t>(n)] =
          of_part.empty() ? 0.0f : of_part[static_cast<std::size_t>(place.row)];
    }
    linear.set_bias(bias);
  }
  linear.shape_ = linear_shape(linear.scheme_, linear.n_, front.weight.k);
  linear.choose_schedules(schedules);
  linear.add_tail(set, first, last, schedules, packer);
  return linear;
}

void DeviceLinear::choose_schedules(const Schedules& schedules) {
  has_medium_ = has_medium_batch(shape_.format);
  most_few_ = max_small_batch(shape_.format, shape_.digits());
  schedule_ = small_batch_schedule(view_, schedules.origin().multiprocessors);
  medium_schedules_.fill(medium_batch_schedule(view_, schedules.origin().multiprocessors));
  const LinearSchedules* measured = schedules.find(shape_);
  if (measured == nullptr) {
    return;
  }
  schedule_ = measured->few.value_or(schedule_);
  for (const MediumTokens& each : measured->medium) {
    medium_schedules_[medium_index(each.columns)] = each.schedule;
  }
  for (const ManyTokens& each : measured->many) {
    many_[bucket_of(each.tokens)] = each;
  }
}

const ManyTokens* DeviceLinear::measured_choice(std::int64_t m) const {
  const auto& choice = many_[bucket_of(m)];
  return choice && choice->serves(m, most_few_) ? &*choice : nullptr;
}

bool DeviceLinear::is_few(std::int64_t m) const {
  if (m <= most_few_ || !shape_.has_gemm()) {
    return true;
  }
  const ManyTokens* choice = measured_choice(m);
  return choice != nullptr && !choice->plan;
}

GemmPlan DeviceLinear::plan_of(const GemmWeights& weights, GemmInputs inputs,
                               std::int64_t m) const {
  const ManyTokens* choice = measured_choice(m);
  return choice != nullptr ? *choice->plan : plan_gemm(weights, inputs, static_cast<int>(m));
}

void DeviceLinear::add_units(const UnitRows& rows, UnitPacker& packer) {
  view_.format = unit_format_of(scheme_);
  view_.n = n_;
  view_.k = k_;
  units_ = Buffer(unit_grid(n_, k_).count() * view_.format.bytes());
  packer.pack(rows, view_.format, units_.data());
  view_.units = units_.data();
}

void DeviceLinear::add_tables(const UnitRows& rows, core::ThreadPool& pool) {
  if (view_.format.codes != CodeKind::kBook) {
    return;
  }
  const std::int64_t padded = unit_grid(n_, k_).row_groups * kUnitRows;
  std::vector<std::int8_t> tables(static_cast<std::size_t>(padded * 16));
  std::vector<float> factors(static_cast<std::size_t>(padded), 1.0f);
  pool.parallel_for(padded, kUnitRows, [&](std::int64_t begin, std::int64_t end) {
    const auto at = static_cast<std::size_t>(begin);
    const auto count = static_cast<std::size_t>(end - begin);
    write_tables(rows, begin, std::span(tables).subspan(at * 16, count * 16),
                 std::span(factors).subspan(at, count));
  });
  tables_ = Buffer::of<std::int8_t>(tables);
  factors_ = Buffer::of<float>(factors);
  view_.tables = tables_.as<std::int8_t>();
  view_.factors = factors_.as<float>();
}

DeviceLinear DeviceLinear::dense(const Linear& part, std::shared_ptr<device::cuda::Buffer> table) {
  DeviceLinear linear;
  linear.scheme_ = part.weight.scheme;
  linear.few_.matrix = true;
  linear.n_ = part.weight.n;
  linear.k_ = part.weight.k;
  linear.table_ = std::move(table);
  linear.dense_ = {linear.table_->data(), part.weight.dense.dtype(), linear.n_, linear.k_};
  linear.set_bias(part.bias);
  return linear;
}

void DeviceLinear::add_tail(const LinearSet& set, std::size_t first, std::size_t last,
                            const Schedules& schedules, UnitPacker& packer) {
  if (scheme_.inputs.tail == 0) {
    return;
  }
  LinearSet tails;
  tails.pairs = paired_;
  for (std::size_t part = first; part < last; ++part) {
    tails.parts.push_back({set.parts[part].name, tail_of(set.parts[part].weight), {}});
  }
  tail_ = std::make_unique<DeviceLinear>(
      packed(tails, 0, tails.parts.size(), nullptr, schedules, packer));
}

void DeviceLinear::add_row_sums() {
  if (!few_.carries_zeros()) {
    return;
  }
  const std::int64_t step = few_.scale_step;
  steps_ = step == 0 ? 1 : (k_ + step - 1) / step;
  row_sums_ = Buffer(n_ * steps_ * static_cast<std::int64_t>(sizeof(float)));
  sum_rows(view_, step, row_sums_.as<float>(), nullptr);
  device::cuda::check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
}

void DeviceLinear::set_bias(std::span<const float> bias) {
  if (!bias.empty()) {
    bias_ = Buffer::of<float>(bias);
  }
}

std::int64_t DeviceLinear::bytes() const {
  return units_.bytes() + tables_.bytes() + factors_.bytes() + bias_.bytes() + row_sums_.bytes() +
         (tail_ ? tail_->bytes() : 0);
}

bool DeviceLinear::is_medium(std::int64_t m) const {
  return has_medium_ && shape_.is_medium(m);
}

bool DeviceLinear::is_many(std::int64_t m) const {
  return !few_.matrix && !is_medium(m) && !is_few(m);
}

InputKey DeviceLinear::key(std::int64_t m) const {
  InputKey key = few_;
  if (is_medium(m)) {
    key.form = few_.bits == 16 ? medium_batch_input(shape_.format, m) : InputForm::kInt8;
  } else if (is_many(m)) {
    key.form = few_.bits == 16 ? InputForm::kFloat16Tiles : InputForm::kInt8;
  }
  return key;
}

void DeviceLinear::run(const LinearInput& x, float* y, std::int64_t ldy,
                       cudaStream_t stream) const {
  if (few_.matrix) {
    return cuda::dense(dense_, x.matrix, x.m, y, ldy, bias(), stream);
  }
  compute(x, {.y = y, .stride = ldy, .bias = bias()}, stream);
}

void DeviceLinear::add(const LinearInput& x, float* y, std::int64_t ldy,
                       cudaStream_t stream) const {
  compute(x, {.y = y, .stride = ldy, .bias = bias(), .adds = true}, stream);
}

void DeviceLinear::compute(const LinearInput& x, const GemmOutput& output,
                           cudaStream_t stream) const {
  if (is_medium(x.m)) {
    run_medium(x, output, stream);
  } else if (is_many(x.m)) {
    run_many(x, output, stream);
  } else {
    run_few(x.rows, x.target, x.m, output, stream);
    if (tail_) {
      tail_->run_few({}, x.tail, x.m, {.y = output.y, .stride = output.stride, .adds = true},
                     stream);
    }
  }
  add_corrections(x, output.y, output.stride, stream);
}

bool DeviceLinear::makes_norms(std::int64_t m, NormKind kind) const {
  return !few_.matrix && !is_medium(m) && !is_many(m) && few_.is_direct() && few_.bits == 16 &&
         m <= max_normed_rows(view_, kind);
}

// What products of codes leave out.
void DeviceLinear::add_corrections(const LinearInput& x, float* y, std::int64_t ldy,
                                   cudaStream_t stream) const {
  if (few_.carries_zeros()) {
    const DenseView sums{row_sums_.data(), core::DType::kF32, n_, steps_};
    cuda::dense(sums, x.shifts, x.m, y, ldy, nullptr, stream, {-1.0f, true});
  }
  if (few_.keeps_outliers) {
    add_outliers(view_, x.outliers, x.m, y, ldy, stream);
  }
}

bool DeviceLinear::gates(std::int64_t m) const {
  if (!paired_ || few_.carries_zeros() || few_.keeps_outliers) {
    return false;
  }
  return is_many(m) || (is_medium(m) && is_half(key(m).form) &&
                        medium_batch_gates(shape_.format, medium_schedule(m), m));
}

void DeviceLinear::run_gated(const LinearInput& x, const GatedOutput& y,
                             cudaStream_t stream) const {
  compute(x, {.gated = y, .bias = bias()}, stream);
}

void DeviceLinear::run_few(const UnnormedRows& rows, const InputTarget& x, std::int64_t m,
                           const GemmOutput& output, cudaStream_t stream) const {
  const int digits = rows.x != nullptr ? 2 : x.digits();
  const std::int64_t padded = padded_columns(k_);
  const std::int64_t scales = x.group == 0 ? 1 : padded / x.group;
  for (std::int64_t row = 0; row < m; row += most_few_) {
    SmallBatchProblem problem;
    problem.weight = view_;
    problem.rows = rows;
    problem.x = {digits, x.codes + row * digits * padded, x.scales + row * scales, x.group == 0};
    problem.m = std::min(most_few_, m - row);
    problem.y = output.y + row * output.stride;
    problem.ldy = output.stride;
    problem.bias = output.bias;
    problem.add = output.adds;
    small_batch(problem, schedule_, stream);
  }
}

const MediumBatchSchedule& DeviceLinear::medium_schedule(std::int64_t m) const {
  return medium_schedules_[medium_index(m * shape_.digits())];
}

void DeviceLinear::run_medium(const LinearInput& x, const GemmOutput& output,
                              cudaStream_t stream) const {
  MediumBatchProblem problem;
  problem.weight = view_;
  problem.x = {x.target.values, x.target.sums,   shape_.digits(),
               x.target.codes,  x.target.scales, x.target.group == 0};
  problem.m = x.m;
  problem.output = output;
  medium_batch(problem, medium_schedule(x.m), stream);
}

void DeviceLinear::run_many(const LinearInput& x, const GemmOutput& output,
                            cudaStream_t stream) const {
  const GemmWeights weights{view_, scheme_.scale.group == 0};
  const auto tokens = static_cast<int>(x.m);
  const std::int64_t padded = padded_columns(k_);
  if (x.target.form == InputForm::kFloat16Tiles) {
    const HalfInputs inputs{x.target.values, tokens, 2 * padded};
    return gemm_half(plan_of(weights, GemmInputs::kHalf, tokens), weights, inputs, output, stream);
  }
  const bool by_group = x.target.group != 0;
  const std::int64_t row_bytes = padded + (tail_ ? kUnitInputs : 0);
  const auto groups = static_cast<int>(row_bytes / kUnitInputs);
  const Int8Inputs inputs{x.target.codes,        tokens,          row_bytes, x.target.scales,
                          by_group ? groups : 1, by_group ? 1 : 0};
  const GemmWeights tail{tail_ ? tail_->view_ : UnitsView(), true};
  const GemmInputs kind = by_group ? GemmInputs::kInt8ScaledByGroup : GemmInputs::kInt8;
  gemm_int8(plan_of(weights, kind, tokens), weights, tail_ ? &tail : nullptr, inputs, output,
            stream);
}

}  // namespace nibble::ops::cuda
