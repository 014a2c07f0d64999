#include "tune/cuda/training_gpu.h"

#include "models/forward.h"

namespace nibble::tune::cuda {

DeviceVariable run_block(CudaGradientOps& tape, const models::NetworkConfig& config,
                         models::NormPlacement norms, const models::Block& block,
                         const compress::CalibrationPack& pack, DeviceVariable x) {
  constexpr std::int64_t kNoLayer = 0;  // nothing is cached
  const compress::PackBatch read(pack);
  models::settle(tape, x,
                 models::run_block(tape, config, norms, block, kNoLayer, read.batch(), x, {}));
  return x;
}

}  // namespace nibble::tune::cuda
