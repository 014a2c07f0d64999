#include "tune/cuda/device_layer.h"

#include <vector>

namespace nibble::tune::cuda {
namespace {

using device::cuda::Buffer;

std::vector<std::int32_t> start_zeros(const GroupScales& scales) {
  std::vector<std::int32_t> zeros;
  zeros.reserve(static_cast<std::size_t>(scales.count()));
  for (const formats::GroupParameters& group : scales.start()) {
    zeros.push_back(group.zero);
  }
  return zeros;
}

}  // namespace

DeviceLayer::DeviceLayer(const TunedLayer& layer, const DeviceAdamW& optimizer, core::DType type,
                         cudaStream_t stream)
    : type_(type),
      stream_(stream),
      signs_(Buffer::of(layer.scales().signs())),
      start_zeros_(Buffer::of(std::span<const std::int32_t>(start_zeros(layer.scales())))),
      values_(layer.scales().n() * layer.scales().k() * core::size_of(type)) {
  const GroupScales& scales = layer.scales();
  const TunedLayer::Own own = layer.parameters();
  weight_.floats = !has_trained_scales(scales.scheme());
  weight_.coder.bits = scales.scheme().code.bits;
  weight_.coder.symmetric = !formats::has_zeros(scales.scheme());
  weight_.n = scales.n();
  weight_.k = scales.k();
  weight_.groups = scales.groups();
  weight_.group = scales.range(0).width;
  weight_.signs = signs_.as<std::int8_t>();
  weight_.start_zeros = start_zeros_.as<std::int32_t>();
  if (own.weights == nullptr && own.places == nullptr) {
    codes_ = Buffer::of(std::span<const std::uint8_t>(layer.codes()));
    weight_.codes = codes_.as<std::uint8_t>();
  }
  weight_.weights = optimizer.values(own.weights);
  weight_.places = optimizer.values(own.places);
  weight_.logarithms = optimizer.values(own.logarithms);
  weight_.zeros = optimizer.values(own.zeros);
  slope_ = {optimizer.gradient(own.weights), optimizer.gradient(own.places),
            optimizer.gradient(own.logarithms), optimizer.gradient(own.zeros)};
  update();
}

std::span<float> DeviceLayer::gradient() const {
  return {slope_.weights, static_cast<std::size_t>(weight_.n * weight_.k)};
}

void DeviceLayer::pass_back() {
  fake_quantize_back(weight_, slope_, stream_);
}

void DeviceLayer::add_scale_gradients(const float* gradient) {
  cuda::add_scale_gradients(weight_, gradient, slope_, stream_);
}

void DeviceLayer::update() {
  fake_quantize(weight_, values_.data(), type_, stream_);
}

}  // namespace nibble::tune::cuda
