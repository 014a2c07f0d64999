#include "ops/cuda/input_transform/device_transform.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace nibble::ops::cuda {
namespace {

std::unique_ptr<HadamardSigns> make_block(std::int64_t size, HadamardBlock& block) {
  auto signs = std::make_unique<HadamardSigns>(size);
  block.size = static_cast<int>(size);
  block.base = signs->view().base;
  block.scale = 1.0f / std::sqrt(static_cast<float>(size));
  block.signs = signs->view().signs;
  return signs;
}

}  // namespace

std::shared_ptr<const DeviceTransform> DeviceTransform::of(const formats::PackedWeight& weight,
                                                           std::string_view layer) {
  const formats::Scheme& scheme = weight.scheme;
  if (scheme.inputs.hadamard == 0 && weight.permutation.empty()) {
    return nullptr;
  }
  auto made = std::make_shared<DeviceTransform>();
  InputTransformView& view = made->view_;
  view.columns = static_cast<int>(weight.k);
  view.head = static_cast<int>(head_inputs(scheme, weight.k));
  if (!weight.permutation.empty()) {
    made->order_ = device::cuda::Buffer::of(weight.permutation.data<std::int32_t>());
    view.order = made->order_.as<std::int32_t>();
  }
  if (scheme.inputs.hadamard == 0) {
    return made;
  }
  const std::int64_t size = hadamard_size(scheme, weight.k);
  const std::int64_t rest = view.head % size;
  core::require(std::max(size, rest) <= kMaxHadamard, core::ErrorKind::kUsage,
                "layer {}: Hadamards of {} inputs have no kernels on a GPU yet; use --device cpu",
                layer, size);
  made->signs_ = make_block(size, view.block);
  if (rest > 0) {
    made->last_signs_ = make_block(rest, view.last);
  }
  return made;
}

}  // namespace nibble::ops::cuda
