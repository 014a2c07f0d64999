#include "ops/cpu/packed/quantized_input.h"

#include <cmath>
#include <utility>

#include "core/error.h"
#include "formats/fp4/e2m1_numbers.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kAliasing = 512;          // rows that far apart share sets of the L1 cache
constexpr std::int64_t kWorthAThread = 1 << 15;  // values; below this a parallel region costs more

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

void grow(PageBuffer& buffer, std::int64_t bytes) {
  if (buffer.bytes() < bytes) {
    buffer = PageBuffer();  // give back first, then take
    buffer = PageBuffer(bytes);
  }
}

// Moves the outliers of a row out of it; NaN and infinity stay.
void take_outliers(std::span<float> row, std::vector<Outlier>& outliers) {
  outliers.clear();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::fabs(row[i]) >= kOutlier && std::isfinite(row[i])) {
      outliers.push_back({static_cast<std::int64_t>(i), row[i]});
      row[i] = 0.0f;
    }
  }
}

}  // namespace

const std::int8_t* QuantizedInput::codes(std::int64_t row) const {
  return reinterpret_cast<const std::int8_t*>(codes_.data()) + row * row_stride_;
}

const float* QuantizedInput::scales(std::int64_t row) const {
  return reinterpret_cast<const float*>(scales_.data()) + row * groups_;
}

const std::int32_t* QuantizedInput::sums(std::int64_t row) const {
  return reinterpret_cast<const std::int32_t*>(sums_.data()) + row * groups_;
}

const std::int32_t* QuantizedInput::zeros(std::int64_t row) const {
  return needs_.activation.carries_zeros()
             ? reinterpret_cast<const std::int32_t*>(zeros_.data()) + row * groups_
             : nullptr;
}

TiledInput QuantizedInput::tiled() const {
  return {m_ * rows_per_token(), codes(0), scales(0), sums(0), row_stride_, groups_};
}

std::span<const Outlier> QuantizedInput::outliers(std::int64_t row) const {
  return needs_.activation.keeps_outliers ? outliers_[static_cast<std::size_t>(row)]
                                          : std::span<const Outlier>();
}

std::vector<Outlier>& QuantizedInput::outliers_of(std::int64_t row) {
  return outliers_[static_cast<std::size_t>(row)];
}

void QuantizedInput::reshape(std::int64_t m, std::int64_t k, const InputNeeds& needs) {
  const std::int64_t group = needs.group;
  core::require(
      m >= 0 && k >= 1 && group >= 1 &&
          (group <= kMaxGroup || (group == k - needs.tail && group <= kMaxRow)),
      core::ErrorKind::kFailed,
      "quantized input of {} x {} in groups of {}: needs m >= 0, k >= 1, group in [1, {}], or rows "
      "of up to {} in one group",
      m, k, group, kMaxGroup, kMaxRow);
  const formats::Activation& activation = needs.activation;
  core::require(!activation.is_float() && formats::problem_of(activation).empty() &&
                    activation.group % group == 0,
                core::ErrorKind::kFailed, "quantized input '{}' in groups of {}", activation,
                group);
  core::require(needs.tail >= 0 && needs.tail < k, core::ErrorKind::kFailed,
                "a tail of {} inputs of {}", needs.tail, k);
  core::require(
      !needs.wide || (activation == formats::Activation{8, true, group} && needs.tail == 0),
      core::ErrorKind::kFailed, "16-bit codes for a layer that rounds its input to '{}'",
      activation);
  core::require(activation.stored_scale == (needs.scale > 0), core::ErrorKind::kFailed,
                "scale {} for inputs rounded to '{}'", needs.scale, activation);
  m_ = m;
  k_ = k - needs.tail;
  needs_ = needs;
  groups_ = (k_ + group - 1) / group;
  if (needs.tail != 0) {
    tail_ = tail_ ? std::move(tail_) : std::make_unique<QuantizedInput>();
    tail_->reshape(m, needs.tail, tail_needs(needs.tail));
  }
  group_stride_ = padded_group(group, k_);
  row_stride_ = round_up(groups_ * group_stride_, kLine);
  if (row_stride_ % kAliasing == 0) {
    row_stride_ += kLine;
  }
  const std::int64_t rows = m * rows_per_token();
  grow(codes_, round_up(rows, kTokenRows) * row_stride_);
  grow(scales_, (rows * groups_ + kScalesBehind) * static_cast<std::int64_t>(sizeof(float)));
  grow(sums_, rows * groups_ * static_cast<std::int64_t>(sizeof(std::int32_t)));
  if (activation.carries_zeros()) {
    grow(zeros_, m * groups_ * static_cast<std::int64_t>(sizeof(std::int32_t)));
  }
  if (activation.keeps_outliers && static_cast<std::int64_t>(outliers_.size()) < m) {
    outliers_.resize(static_cast<std::size_t>(m));
  }
}

RowToQuantize QuantizedInput::target(std::int64_t token, const float* x) {
  const formats::Activation& activation = needs_.activation;
  const std::int64_t row = token * rows_per_token();
  RowToQuantize target;
  target.x = x;
  target.k = k_;
  target.group = needs_.group;
  target.group_stride = group_stride_;
  target.scale_group = activation.group == 0 ? k_ : activation.group;
  target.bits = activation.bits;
  target.symmetric = activation.symmetric;
  target.clip = activation.clip;
  target.scale = needs_.scale;
  target.e2m1 = activation.type == &formats::kE2m1Numbers;
  target.codes = reinterpret_cast<std::int8_t*>(codes_.data()) + row * row_stride_;
  target.scales = reinterpret_cast<float*>(scales_.data()) + row * groups_;
  target.sums = reinterpret_cast<std::int32_t*>(sums_.data()) + row * groups_;
  if (activation.carries_zeros()) {
    target.zeros = reinterpret_cast<std::int32_t*>(zeros_.data()) + row * groups_;
  }
  if (needs_.wide) {
    target.low_codes = target.codes + row_stride_;
    target.low_scales = target.scales + groups_;
    target.low_sums = target.sums + groups_;
  }
  return target;
}

void quantize_token(const Variant& variant, const float* x, std::int64_t token,
                    QuantizedInput& out) {
  thread_local std::vector<float> rest;
  const InputNeeds& needs = out.needs();
  if (needs.activation.keeps_outliers || !needs.transform.is_identity()) {
    rest.assign(x, x + out.k());
    needs.transform.apply(rest);
    x = rest.data();
  }
  if (needs.activation.keeps_outliers) {
    take_outliers(rest, out.outliers_of(token));
  }
  variant.quantize_row(out.target(token, x));
  if (needs.tail != 0) {
    variant.quantize_row(out.tail_target(token, x + out.k() - needs.tail));
  }
}

void quantize_input(const Variant& variant, const float* x, std::int64_t m, std::int64_t k,
                    std::int64_t ldx, const InputNeeds& needs, QuantizedInput& out,
                    core::ThreadPool& pool) {
  out.reshape(m, k, needs);
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      quantize_token(variant, x + row * ldx, row, out);
    }
  };
  if (m * k < kWorthAThread) {
    rows(0, m);
    return;
  }
  pool.parallel_for(m, (kWorthAThread / 2 + k - 1) / k, rows);
}

void quantize_input(const float* x, std::int64_t m, std::int64_t k, std::int64_t ldx,
                    const InputNeeds& needs, QuantizedInput& out, core::ThreadPool& pool) {
  quantize_input(active_variant(), x, m, k, ldx, needs, out, pool);
}

}  // namespace nibble::ops::cpu
