#include "ops/cuda/step_inputs.h"

#include <algorithm>

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kBytes = sizeof(std::int32_t);
constexpr std::int64_t kAlignment = 4;  // numbers: vectors may be read

}  // namespace

StepInputs::StepInputs(std::int64_t capacity)
    : capacity_(capacity), host_(capacity * kBytes), device_(capacity * kBytes) {}

void StepInputs::clear() {
  copied_.synchronize();
  used_ = 0;
}

std::span<const std::int32_t> StepInputs::put(std::span<const std::int32_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  core::require(used_ + count <= capacity_, core::ErrorKind::kFailed,
                "a step of more than {} numbers", capacity_);
  auto* const target = host_.as<std::int32_t>() + used_;
  std::copy(values.begin(), values.end(), target);
  used_ = std::min(capacity_, (used_ + count + kAlignment - 1) / kAlignment * kAlignment);
  return {target, values.size()};
}

void StepInputs::upload(cudaStream_t stream) {
  device::cuda::check(
      cudaMemcpyAsync(device_.data(), host_.data(), static_cast<std::size_t>(used_ * kBytes),
                      cudaMemcpyHostToDevice, stream),
      "cudaMemcpyAsync");
  copied_.record(stream);
}

const std::int32_t* StepInputs::on_device(std::span<const std::int32_t> values) const {
  const std::int32_t* const begin = host_.as<std::int32_t>();
  core::require(values.data() >= begin && values.data() + values.size() <= begin + used_,
                core::ErrorKind::kFailed, "{} numbers were not put into the step", values.size());
  return device_.as<std::int32_t>() + (values.data() - begin);
}

}  // namespace nibble::ops::cuda
