#include "compress/calibration/cuda/rounded_layers.h"

#include <utility>

#include "core/error.h"

namespace nibble::compress::cuda {

using ops::cuda::DeviceInput;
using ops::cuda::DeviceTransform;
using ops::cuda::InputKey;
using ops::cuda::LinearInput;
using ops::cuda::LinearLayer;

RoundedLayers::RoundedLayers(CudaContext& context, core::ThreadPool& pool)
    : context_(context), packer_(pool), schedules_(ops::cuda::origin_of(context.device())) {}

// Each part alone: the results of several would stand in pairs.
void RoundedLayers::load(const ops::LinearSet& set, std::size_t part) {
  const ops::Linear& front = set.parts[part];
  core::require(!front.low_rank, core::ErrorKind::kUsage,
                "layer {}: an adapter beside {} does not run in calibration on a GPU; use --device "
                "cpu",
                front.name, front.weight.scheme);
  auto transform = DeviceTransform::of(front.weight, front.name);
  LinearLayer layer = LinearLayer::packed(set, part, part + 1, transform, schedules_, packer_);
  layers_.insert_or_assign(&front.weight, Loaded{std::move(transform), std::move(layer)});
}

void RoundedLayers::release() {
  layers_.clear();
  pool_ = std::make_shared<ops::cuda::DevicePool>();
}

void RoundedLayers::run(const ops::Linear& layer, const Matrix& x, Matrix& y, std::int64_t column) {
  const auto found = layers_.find(&layer.weight);
  core::require(found != layers_.end(), core::ErrorKind::kFailed,
                "layer {} was not made ready for the GPU", layer.name);
  const Loaded& loaded = found->second;
  const InputKey key = loaded.layer.key(x.rows());
  const ops::cuda::GemmOutput output{.y = y.data() + column, .stride = y.columns()};
  Matrix turned;
  const float* values = x.data();
  if (loaded.transform != nullptr) {
    turned = Matrix(pool_, x.rows(), x.columns());
    ops::cuda::transform_inputs(loaded.transform->view(), x.data(), turned.data(), x.rows(),
                                context_.stream());
    values = turned.data();
  }
  if (key.matrix) {
    LinearInput input;
    input.m = x.rows();
    input.matrix = values;
    return loaded.layer.run(input, output, context_.stream());
  }
  DeviceInput input(pool_, key, x.rows(), x.columns());
  input.round(values, context_.stream());
  loaded.layer.run(input.view(), output, context_.stream());
}

}  // namespace nibble::compress::cuda
