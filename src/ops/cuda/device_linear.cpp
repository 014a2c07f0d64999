#include "ops/cuda/device_linear.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "device/cuda/check.h"
#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/packed/unit_writer.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using formats::FormatKind;

constexpr std::int64_t kChunkBytes = 64 << 20;  // of units that are packed at a time

InputKey few_tokens_key(const Linear& part) {
  const formats::Scheme& scheme = part.weight.scheme;
  InputKey key;
  if (scheme.kind == FormatKind::kDense) {
    key.matrix = true;
    return key;
  }
  const formats::Activation& activation = scheme.activation;
  if (activation.is_float()) {
    return key;
  }
  const bool known = activation.symmetric && !activation.keeps_outliers &&
                     (activation.bits == 8 || activation.bits == 4) &&
                     (activation.group == 0 || activation.group == kUnitInputs);
  core::require(known, core::ErrorKind::kUsage,
                "layer {}: activations of {} have no kernels on a GPU yet; use --device cpu",
                part.name, to_string(scheme));
  return {false, InputForm::kInt8Lanes, activation.bits, activation.group, activation.clip};
}

void refuse_unknown(const Linear& part) {
  const formats::Scheme& scheme = part.weight.scheme;
  const bool plain = scheme.hadamard == 0 && scheme.tail == 0 && part.weight.permutation.empty();
  core::require(
      plain && (scheme.kind == FormatKind::kDense || has_units(scheme)), core::ErrorKind::kUsage,
      "layer {}: {} has no kernels on a GPU yet; use --device cpu", part.name, to_string(scheme));
  core::require(!part.low_rank, core::ErrorKind::kUsage,
                "layer {}: adapters do not run on a GPU yet; use --device cpu, or quantize "
                "--merge-lora",
                part.name);
}

}  // namespace

std::size_t joint_parts(const LinearSet& set, std::size_t first) {
  const formats::Scheme& scheme = set.parts[first].weight.scheme;
  std::size_t last = first + 1;
  if (scheme.kind == FormatKind::kDense) {
    return 1;
  }
  while (last < set.parts.size() && set.parts[last].weight.scheme == scheme &&
         set.parts[last - 1].weight.n % kUnitRows == 0) {
    ++last;
  }
  return last - first;
}

DeviceLinear DeviceLinear::packed(const LinearSet& set, std::size_t first, std::size_t last,
                                  int multiprocessors, core::ThreadPool& pool) {
  DeviceLinear linear;
  const Linear& front = set.parts[first];
  refuse_unknown(front);
  linear.scheme_ = front.weight.scheme;
  linear.few_ = few_tokens_key(front);
  linear.k_ = front.weight.k;
  std::vector<float> bias;
  bool has_bias = false;
  for (std::size_t part = first; part < last; ++part) {
    refuse_unknown(set.parts[part]);
    linear.n_ += set.parts[part].weight.n;
    has_bias = has_bias || !set.parts[part].bias.empty();
  }
  UnitsView& view = linear.view_;
  view.format = unit_format_of(front.weight.scheme);
  view.n = linear.n_;
  view.k = linear.k_;
  const bool book = view.format.codes == CodeKind::kBook;
  const UnitGrid whole = unit_grid(linear.n_, linear.k_);
  const std::int64_t group_bytes = whole.blocks * view.format.bytes();
  linear.units_ = Buffer(whole.count() * view.format.bytes());
  std::vector<std::int8_t> tables(book ? static_cast<std::size_t>(whole.row_groups * kUnitRows * 16)
                                       : 0);
  std::vector<float> factors(static_cast<std::size_t>(whole.row_groups * kUnitRows));
  std::int64_t row_group = 0;
  for (std::size_t part = first; part < last; ++part) {
    const formats::PackedWeight& weight = set.parts[part].weight;
    const std::int64_t groups = unit_grid(weight.n, weight.k).row_groups;
    const std::int64_t step = std::max<std::int64_t>(1, kChunkBytes / group_bytes);
    std::vector<std::byte> units;
    for (std::int64_t begin = 0; begin < groups; begin += step) {
      const std::int64_t count = std::min(step, groups - begin);
      units.resize(static_cast<std::size_t>(count * group_bytes));
      pool.parallel_for(count, 1, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t g = from; g < to; ++g) {
          const auto at = static_cast<std::size_t>((row_group + begin + g) * kUnitRows);
          write_units(
              weight, view.format, begin + g, 1,
              std::span(units).subspan(static_cast<std::size_t>(g * group_bytes),
                                       static_cast<std::size_t>(group_bytes)),
              book ? std::span(tables).subspan(at * 16, kUnitRows * 16) : std::span<std::int8_t>(),
              std::span(factors).subspan(at, kUnitRows));
        }
      });
      device::cuda::check(cudaMemcpy(linear.units_.data() + (row_group + begin) * group_bytes,
                                     units.data(), units.size(), cudaMemcpyHostToDevice),
                          "cudaMemcpy to the device");
    }
    row_group += groups;
    bias.insert(bias.end(), set.parts[part].bias.begin(), set.parts[part].bias.end());
    bias.resize(bias.size() + (set.parts[part].bias.empty()
                                   ? static_cast<std::size_t>(has_bias ? weight.n : 0)
                                   : 0));
  }
  view.units = linear.units_.data();
  if (book) {
    linear.tables_ = Buffer::of<std::int8_t>(tables);
    linear.factors_ = Buffer::of<float>(factors);
    view.tables = linear.tables_.as<std::int8_t>();
    view.factors = linear.factors_.as<float>();
  }
  linear.set_bias(bias);
  linear.schedule_ = small_batch_schedule(view, multiprocessors);
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return linear;
}

DeviceLinear DeviceLinear::dense(const Linear& part, std::shared_ptr<device::cuda::Buffer> table) {
  refuse_unknown(part);
  DeviceLinear linear;
  linear.scheme_ = part.weight.scheme;
  linear.few_ = few_tokens_key(part);
  linear.n_ = part.weight.n;
  linear.k_ = part.weight.k;
  linear.table_ = std::move(table);
  linear.dense_ = {linear.table_->data(), part.weight.dense.dtype(), linear.n_, linear.k_};
  linear.set_bias(part.bias);
  return linear;
}

void DeviceLinear::set_bias(std::span<const float> bias) {
  if (!bias.empty()) {
    bias_ = Buffer::of<float>(bias);
  }
}

std::int64_t DeviceLinear::bytes() const {
  return units_.bytes() + tables_.bytes() + factors_.bytes() + bias_.bytes();
}

bool DeviceLinear::has_gemm() const {
  const UnitFormat& format = view_.format;
  if (few_.matrix || format.scales != ScaleKind::kF16) {
    return false;
  }
  if (few_.bits == 16) {
    return true;
  }
  const bool integers = format.codes != CodeKind::kBook &&
                        format.codes != CodeKind::kInt8WithZeros && format.groups == 1;
  return integers && (few_.group == 0 || format.bits() == 4);
}

InputKey DeviceLinear::key(std::int64_t m) const {
  const int digits = few_.bits == 16 ? 2 : 1;
  if (m <= max_small_batch(digits) || !has_gemm()) {
    return few_;
  }
  InputKey key = few_;
  key.form = few_.bits == 16 ? InputForm::kFloat16Tiles : InputForm::kInt8;
  return key;
}

void DeviceLinear::run(const LinearInput& x, float* y, std::int64_t ldy,
                       cudaStream_t stream) const {
  if (few_.matrix) {
    const float* bias = bias_.empty() ? nullptr : bias_.as<float>();
    return cuda::dense(dense_, x.matrix, x.m, y, ldy, bias, stream);
  }
  key(x.m).form == InputForm::kInt8Lanes ? run_few(x, y, ldy, stream) : run_many(x, y, ldy, stream);
}

void DeviceLinear::run_few(const LinearInput& x, float* y, std::int64_t ldy,
                           cudaStream_t stream) const {
  const int digits = x.target.digits();
  const std::int64_t most = max_small_batch(digits);
  const std::int64_t blocks = unit_grid(n_, k_).blocks;
  const bool of_token = x.target.group == 0;
  for (std::int64_t row = 0; row < x.m; row += most) {
    SmallBatchProblem problem;
    problem.weight = view_;
    problem.x = {digits, x.target.codes + row * digits * blocks * kUnitInputs,
                 x.target.scales + row * (of_token ? 1 : blocks), of_token};
    problem.m = std::min(most, x.m - row);
    problem.y = y + row * ldy;
    problem.ldy = ldy;
    problem.bias = bias_.empty() ? nullptr : bias_.as<float>();
    small_batch(problem, schedule_, stream);
  }
}

void DeviceLinear::run_many(const LinearInput& x, float* y, std::int64_t ldy,
                            cudaStream_t stream) const {
  const GemmWeights weights{view_, scheme_.group == 0};
  const auto tokens = static_cast<int>(x.m);
  const std::int64_t padded = padded_columns(k_);
  GemmOutput output;
  output.y = y;
  output.stride = ldy;
  output.bias = bias_.empty() ? nullptr : bias_.as<float>();
  if (x.target.form == InputForm::kFloat16Tiles) {
    const HalfInputs inputs{x.target.values, tokens, 2 * padded};
    return gemm_half(plan_gemm(static_cast<int>(n_), tokens, false), weights, inputs, output,
                     stream);
  }
  const bool by_group = x.target.group != 0;
  const auto groups = static_cast<int>(padded / kUnitInputs);
  const Int8Inputs inputs{x.target.codes,        tokens,          padded, x.target.scales,
                          by_group ? groups : 1, by_group ? 1 : 0};
  gemm_int8(plan_gemm(static_cast<int>(n_), tokens, by_group || scheme_.group != 0), weights,
            nullptr, inputs, output, stream);
}

}  // namespace nibble::ops::cuda
