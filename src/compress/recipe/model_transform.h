#pragma once

#include "core/tensor.h"
#include "core/threads.h"
#include "models/network.h"

namespace nibble::compress {

/// What a transformation makes of a model outside its blocks.
struct ChangedEnds {
  core::Tensor embedding;  // [vocabulary, hidden]
  core::Tensor positions;  // [rows, hidden], or empty
  core::Tensor output;     // [vocabulary, hidden], on its own even where the model shared it
  ops::Norm final_norm;
};

/// A change of all weights of a model that keeps what it computes, applied before the blocks are
/// compressed. It gives one block at a time, so that only that one is in memory.
class ModelTransform {
 public:
  virtual ~ModelTransform() = default;
  virtual ChangedEnds ends(const models::Network& network, core::ThreadPool& pool) const = 0;

  /// The block with float32 weights.
  virtual models::Block block(const models::Block& original, core::ThreadPool& pool) const = 0;
};

/// `network` with other ends; its blocks stay.
models::Network with_ends(models::Network network, const ChangedEnds& ends);

/// `network` with an output layer of its own.
models::Network with_output(models::Network network, formats::PackedWeight weight);

}  // namespace nibble::compress
