#include "ops/cuda/input_transform/device_transform.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "ops/cuda/elementwise/ordered_rows.h"

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

// Of an order as ordered_rows.h reads it.
device::cuda::Buffer places_of(const core::Tensor& permutation, std::string_view layer) {
  const auto order = permutation.data<std::int32_t>();
  const std::int64_t columns = std::ssize(order);
  core::require(columns <= kMaxOrdered, core::ErrorKind::kUsage,
                "layer {}: orders of {} inputs have no kernels on a GPU yet; use --device cpu",
                layer, columns);
  std::vector<std::uint16_t> places(static_cast<std::size_t>(padded_columns(columns)));
  std::iota(places.begin(), places.end(), std::uint16_t{0});
  std::transform(order.begin(), order.end(), places.begin(),
                 [](std::int32_t input) { return static_cast<std::uint16_t>(input); });
  return device::cuda::Buffer::of<std::uint16_t>(places);
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
    made->order_ = places_of(weight.permutation, layer);
    view.order = made->order_.as<std::uint16_t>();
  }
  if (scheme.inputs.hadamard == 0) {
    made->is_order_ = weight.k <= max_ordered_columns();
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
