#pragma once

#include <memory>
#include <vector>

#include "compress/block/compressed_block.h"
#include "core/threads.h"
#include "models/network.h"
#include "tune/block_task.h"
#include "tune/parameter.h"
#include "tune/tuned_layer.h"
#include "tune/tuning_options.h"

namespace nibble::tune {

/// A copy of a block whose compressed layers are trained (Trained::kWeights), with the parameters.
/// Does not move: parameters and weights are known by their place.
struct TrainedBlock {
  TrainedBlock(const BlockTask& task, const StageOptions& stage, core::ThreadPool& pool);
  TrainedBlock(const TrainedBlock&) = delete;
  TrainedBlock& operator=(const TrainedBlock&) = delete;

  /// The layers as the parameters have them.
  compress::CompressedBlock packed(core::ThreadPool& pool) const;

  models::Block block;
  Parameters parameters;
  std::vector<std::unique_ptr<TunedLayer>> layers;
};

}  // namespace nibble::tune
