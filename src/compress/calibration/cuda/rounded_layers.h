#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "compress/backend/cuda/cuda_context.h"
#include "core/threads.h"
#include "ops/cuda/device_matrix.h"
#include "ops/cuda/linear/linear_layer.h"
#include "ops/layers.h"

namespace nibble::compress::cuda {

/// Layers of a block whose activations are rounded, by the kernels that run them in models: the
/// codes of their inputs are the CPU's, bit for bit.
class RoundedLayers {
 public:
  using Matrix = ops::cuda::DeviceMatrix;

  /// Threads of `pool` pack weights.
  RoundedLayers(CudaContext& context, core::ThreadPool& pool);

  /// Whether a layer is one of them: its weight is not dense.
  static bool serves(const ops::Linear& layer) { return !formats::is_dense(layer.weight.scheme); }

  /// Brings part `part` of a set to the device. Throws kUsage, naming the layer, for what no kernel
  /// computes, and for adapters.
  void load(const ops::LinearSet& set, std::size_t part);
  /// Gives all memory back.
  void release();

  /// Columns [column, column + n) of y become x W^T + bias of a layer that was loaded.
  void run(const ops::Linear& layer, const Matrix& x, Matrix& y, std::int64_t column);

 private:
  struct Loaded {
    std::shared_ptr<const ops::cuda::DeviceTransform> transform;
    ops::cuda::LinearLayer layer;
  };

  CudaContext& context_;
  ops::cuda::UnitPacker packer_;
  ops::cuda::Schedules schedules_;  // what is built in
  std::shared_ptr<ops::cuda::DevicePool> pool_ = std::make_shared<ops::cuda::DevicePool>();
  std::map<const formats::PackedWeight*, Loaded> layers_;
};

}  // namespace nibble::compress::cuda
