#pragma once

#include <cstdint>

#include "compress/calibration/window_store.h"
#include "models/network.h"

namespace nibble::tune {

/// A block and what it should become.
struct BlockTask {
  std::int64_t number = 1;  // of the block, from 1
  const models::NetworkConfig& config;
  models::NormPlacement norms{};
  const models::Block& compressed;
  const models::Block* original = nullptr;  // whose weights training starts near; null: the codes
  const compress::WindowStore& inputs;      // behind the tuned blocks before it
  const compress::WindowStore& targets;     // behind the same block of the float model
};

}  // namespace nibble::tune
