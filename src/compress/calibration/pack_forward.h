#pragma once

#include "compress/calibration/calibration_inputs.h"
#include "models/encoder_forward.h"

namespace nibble::compress {

/// What the blocks of a decoder read of its encoder: a pack and its states.
template <ops::EncoderOps O>
struct PackSource {
  const CalibrationPack* pack = nullptr;       // null: there is no encoder
  const typename O::Matrix* states = nullptr;  // [tokens of the pack, hidden]
};

/// Moves the residual stream x of a pack through one block; what it leaves to be done is done.
template <ops::EncoderOps O>
void run_pack(O& ops, const models::NetworkConfig& config, models::NormPlacement norms,
              const models::Block& block, const CalibrationPack& pack, const PackSource<O>& source,
              typename O::Matrix& x) {
  constexpr std::int64_t kLayer = 0;  // the memory is that of one block
  if (!block.cross) {
    const PackBatch alone(pack);
    return models::move_through(ops, config, norms, block, kLayer, alone.batch(), x);
  }
  PackMemory memory(block.cross->spec, *source.pack);
  const PackBatch read(*source.pack, &memory);
  const PackBatch written(pack, &memory);
  models::remember(ops, *block.cross, kLayer, read.batch(), *source.states);
  models::move_through(ops, config, norms, block, kLayer, written.batch(), x);
}

}  // namespace nibble::compress
