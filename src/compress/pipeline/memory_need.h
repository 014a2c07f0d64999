#pragma once

#include <cstdint>

#include "compress/calibration/statistics.h"
#include "models/network.h"

namespace nibble::compress {

/// What the work on a block depends on.
struct BlockDemand {
  StatisticsKind statistics = StatisticsKind::kNone;
  bool true_sequential = false;
  bool transforms_model = false;  // a ModelTransform gives blocks in float32
  std::int64_t tokens = 0;        // of the longest calibration window
  bool needs_curvature = false;   // a pass reads the curvature of the loss
  std::int64_t all_tokens = 0;    // of all calibration windows
  bool rounds_output = false;     // the output layer is compressed too
  bool keeps_original = false;    // the windows go through the original model too
};

/// Bytes that compressing the largest block (or the output layer) needs at most, by the sizes of
/// its layers, with the curvature of all blocks beside it. They are the program's own memory; pages
/// of the mapped model, which the system drops when it must, are not counted, nor are hidden states
/// of calibration windows.
///
/// For w weights, k inputs of a set and t tokens, at the set where the sum is largest:
///   8 w          float32 copies of the layers that are not compressed yet: target and weights
///   4 k^2        Hessians of their inputs; 8 k^2 with asymmetric calibration
///   12 k^2       the set's Hessian being factored: float64, and the factor in float32; 20 k^2
///                with asymmetric calibration
///   1 w          what is compressed already, at most 8 bits each
///   4 w          each float32 copy of the block that the windows run through
///   4 t (k + n)  inputs and outputs of all layers for one window
std::int64_t block_memory(const models::Network& network, const BlockDemand& demand);

/// Bytes of the curvature, which is measured before the first block and stays until the last: 0
/// unless it is needed. For a layer of n outputs and T tokens of all windows
///   4 * 512 n    blocks of kCurvatureBlock outputs; 4 r^2 for the r outputs of a last, narrower
///   one 4 T          weights of the tokens, for each set of layers
std::int64_t curvature_memory(const models::Network& network, const BlockDemand& demand);

/// Bytes while the curvature is measured, before there are hidden states of calibration windows; 0
/// unless it is needed. For t tokens, beside curvature_memory():
///   4 T          |g|^2 of each layer's outputs
///   4 t hidden   the window's hidden states before each block
///   8 t (k + n)  inputs and outputs of the largest block's layers, with their gradients
///   24 t hidden  its residual stream, with gradients
///   8 t^2        probabilities of one attention head, with their gradient
///   8 l v        logits of l = min(t, kLogitRows) tokens over v words, with their gradient; their
///                buffers are kept
std::int64_t curvature_measuring_memory(const models::Network& network, const BlockDemand& demand);

}  // namespace nibble::compress
