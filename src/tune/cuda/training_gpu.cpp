#include "tune/cuda/training_gpu.h"

#include "models/forward.h"

namespace nibble::tune::cuda {

void TrainingGpu::load_ends(const models::Network& network) {
  operators_.load(network.output);
  for (const auto* projection : {&network.embeddings.project_in, &network.project_out}) {
    if (*projection) {
      operators_.load(**projection);
    }
  }
}

void TrainingGpu::load_blocks(const models::Network& network) {
  for (const models::Block& block : network.decoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      operators_.load(*set);
    }
  }
}

DeviceVariable run_block(CudaGradientOps& tape, const models::NetworkConfig& config,
                         models::NormPlacement norms, const models::Block& block,
                         const compress::CalibrationPack& pack, DeviceVariable x) {
  constexpr std::int64_t kNoLayer = 0;  // nothing is cached
  const compress::PackBatch read(pack);
  models::move_through(tape, config, norms, block, kNoLayer, read.batch(), x);
  return x;
}

}  // namespace nibble::tune::cuda
