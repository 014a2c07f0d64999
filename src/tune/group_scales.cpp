#include "tune/group_scales.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "formats/block_sparse.h"

namespace nibble::tune {

using formats::GroupParameters;

void require_trainable(const formats::Scheme& scheme) {
  const bool integers = formats::is_integer(scheme) &&
                        scheme.scale.type == formats::ScaleType::kF16 && scheme.scale.rows == 1 &&
                        !formats::has_minima(scheme);
  const bool floats = !formats::has_codes(scheme) && formats::is_block_sparse(scheme);
  core::require(
      integers || floats, core::ErrorKind::kUsage,
      "layers in {} are not tuned: only integers with an fp16 scale for each group or row "
      "and integer zero points (gptq-w4g128, gqsa-w4s50, rtn-w2g64), and groups of floats "
      "(gqsa-f16s50)",
      scheme);
  core::require(!formats::keeps_two_of_four(scheme), core::ErrorKind::kUsage,
                "layers in {} are not tuned: training would move weights that are not stored",
                scheme);
  core::require(scheme.inputs == formats::Inputs(), core::ErrorKind::kUsage,
                "layers in {} are not tuned: they turn or reorder their inputs", scheme);
}

compress::CodedWeight coded_of(const formats::PackedWeight& weight) {
  if (has_trained_scales(weight.scheme)) {
    return compress::unpack(weight);
  }
  compress::CodedWeight coded;
  const std::int64_t groups = formats::groups_per_row(weight.scheme, weight.k);
  coded.parameters.groups.assign(static_cast<std::size_t>(weight.n * groups), {0.0f, 0});
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::for_each_stored_group(weight, row, [&](std::int64_t, std::int64_t group) {
      coded.parameters.groups[static_cast<std::size_t>(row * groups + group)].scale = 1.0f;
    });
  }
  return coded;
}

GroupScales::GroupScales(const formats::Scheme& scheme, std::int64_t n, std::int64_t k,
                         std::span<const GroupParameters> parameters)
    : scheme_(scheme),
      n_(n),
      k_(k),
      groups_(formats::groups_per_row(scheme, k)),
      last_code_((1 << scheme.code.bits) - 1),
      start_(parameters.begin(), parameters.end()) {
  require_trainable(scheme);
  if (has_trained_scales(scheme)) {
    format_ = formats::make_format(scheme);
  }
  core::require(std::ssize(start_) == count(), core::ErrorKind::kFailed,
                "{} groups for a layer of {}", start_.size(), count());
  for (const GroupParameters& group : start_) {
    signs_.push_back(static_cast<std::int8_t>(group.scale > 0 ? 1 : group.scale < 0 ? -1 : 0));
  }
}

std::vector<float> GroupScales::logarithms() const {
  std::vector<float> values(start_.size());
  std::transform(start_.begin(), start_.end(), values.begin(), [](const GroupParameters& group) {
    return group.scale != 0 ? std::log(std::abs(group.scale)) : 0.0f;
  });
  return values;
}

std::vector<float> GroupScales::zeros() const {
  if (!formats::has_zeros(scheme_)) {
    return {};
  }
  std::vector<float> values(start_.size());
  std::transform(start_.begin(), start_.end(), values.begin(),
                 [](const GroupParameters& group) { return static_cast<float>(group.zero); });
  return values;
}

GroupParameters GroupScales::stored(std::int64_t at, std::span<const float> logarithms,
                                    std::span<const float> zeros) const {
  const auto i = static_cast<std::size_t>(at);
  GroupParameters group = start_[i];
  if (signs_[i] == 0) {
    return group;
  }
  group.scale = format_->stored_scale(signs_[i] * std::exp(static_cast<double>(logarithms[i])));
  if (!zeros.empty()) {
    group.zero = static_cast<int>(
        std::clamp(std::nearbyint(zeros[i]), 0.0f, static_cast<float>(last_code_)));
  }
  return group;
}

}  // namespace nibble::tune
