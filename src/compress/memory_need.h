#pragma once

#include <cstdint>

#include "compress/statistics.h"
#include "models/decoder.h"

namespace nibble::compress {

/// What the work on a block depends on.
struct BlockDemand {
  StatisticsKind statistics = StatisticsKind::kNone;
  bool true_sequential = false;
  bool transforms_model = false;  // a ModelTransform gives blocks in float32
  std::int64_t tokens = 0;        // of the longest calibration window
};

/// Bytes that compressing the largest block needs at most, by the sizes of its layers. They are the
/// program's own memory; pages of the mapped model, which the system drops when it must, are not
/// counted, nor are hidden states of calibration windows, nor the curvature of refinement.
///
/// For w weights, k inputs of a set and t tokens, at the set where the sum is largest:
///   8 w          float32 copies of the layers that are not compressed yet: target and weights
///   4 k^2        Hessians of their inputs; 8 k^2 with asymmetric calibration
///   12 k^2       the set's Hessian being factored: float64, and the factor in float32; 20 k^2
///                with asymmetric calibration
///   1 w          what is compressed already, at most 8 bits each
///   4 w          each float32 copy of the block that the windows run through
///   4 t (k + n)  inputs and outputs of all layers for one window
std::int64_t block_memory(const models::Decoder& decoder, const BlockDemand& demand);

}  // namespace nibble::compress
