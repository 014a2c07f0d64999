#pragma once

#include "compress/calibration/calibration_inputs.h"
#include "device/cuda/stream.h"
#include "device/cuda_devices.h"
#include "models/network.h"
#include "ops/gradient/cuda/cuda_operators.h"

namespace nibble::tune::cuda {

using ops::gradient::cuda::CudaGradientOps;
using ops::gradient::cuda::CudaOperators;
using DeviceMatrix = CudaOperators::Matrix;
using DeviceVariable = CudaGradientOps::Variable;

/// What the parts of training on a GPU share: one GPU and one stream.
class TrainingGpu {
 public:
  /// Throws kUsage where there is no such GPU, or no cuBLAS.
  TrainingGpu(int index, ops::gradient::ProductPrecision precision, ops::cpu::CpuOps& cpu)
      : device_(device::require_cuda_device(index)), operators_(stream_.get(), precision, cpu) {}

  CudaOperators& operators() { return operators_; }
  const CudaOperators& operators() const { return operators_; }
  cudaStream_t stream() const { return stream_.get(); }

  /// Loads what stands before the blocks of a decoder and behind them.
  void load_ends(const models::Network& network);
  /// Loads all layers of its blocks.
  void load_blocks(const models::Network& network);

 private:
  device::CudaDevice device_;
  device::cuda::Stream stream_;
  CudaOperators operators_;
};

/// What a block of a decoder, whose layers are loaded, makes of the residual stream x of a pack.
DeviceVariable run_block(CudaGradientOps& tape, const models::NetworkConfig& config,
                         models::NormPlacement norms, const models::Block& block,
                         const compress::CalibrationPack& pack, DeviceVariable x);

}  // namespace nibble::tune::cuda
