#include "ops/cuda/step_inputs.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kBytes = sizeof(std::int32_t);
constexpr std::int64_t kAlignment = 4;  // numbers: vectors may be read
static_assert(kAlignment * kBytes % StepUpload::kAlignment == 0);

}  // namespace

StepInputs::StepInputs(std::int64_t capacity)
    : capacity_(capacity), host_(capacity * kBytes), device_(capacity * kBytes) {}

std::span<const std::int32_t> StepInputs::put(std::span<const std::int32_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  core::require(used_ + count <= capacity_, core::ErrorKind::kFailed,
                "a step of more than {} numbers", capacity_);
  auto* const target = host_.as<std::int32_t>() + used_;
  std::copy(values.begin(), values.end(), target);
  used_ = std::min(capacity_, (used_ + count + kAlignment - 1) / kAlignment * kAlignment);
  return {target, values.size()};
}

void StepInputs::add_to(StepUpload& upload) const {
  upload.add(host_.data(), device_.data(), used_ * kBytes);
}

std::int32_t* StepInputs::on_device(std::span<const std::int32_t> values) const {
  const std::int32_t* const begin = host_.as<std::int32_t>();
  core::require(values.data() >= begin && values.data() + values.size() <= begin + used_,
                core::ErrorKind::kFailed, "{} numbers were not put into the step", values.size());
  return device_.as<std::int32_t>() + (values.data() - begin);
}

}  // namespace nibble::ops::cuda
