#pragma once

#include <cstdint>

#include "compress/recipe/model_transform.h"
#include "compress/rotate/rotation.h"

namespace nibble::compress {

/// The rotations of QuaRot (arXiv 2404.00456, section 4) that can be computed once and change no
/// product in real numbers:
///
///   norms     weights go into the layers behind them, W <- W diag(weight), and become 1; biases of
///             LayerNorm go into the layers' biases, b <- b + W bias, and become 0
///   R1        turns the residual stream: embedding E R1 (and learned positions), inputs of q, k,
///             v, gate, up, router and output matrix W R1, outputs of o and down R1^T W, R1^T b
///   R2        turns each head's values: rows of v R2^T W, R2^T b, and inputs of o W R2. One R2 for
///             all heads, so that query heads may share value heads
///
/// R1 is a random Hadamard matrix of the hidden size (one that keeps means for LayerNorm), R2 a
/// Hadamard matrix of the head size. Queries, keys and the inside of the MLP are not turned.
///
/// The embedding and the output matrix, which is no longer shared with it, are stored in float32
/// when the embedding was, else in float16: three bits more precise than bfloat16, so that rounding
/// the turned values costs the logits less than 1e-3 of their size.
class ModelRotation final : public ModelTransform {
 public:
  /// Throws kUsage for sizes without a Hadamard matrix, and for models whose stream cannot be
  /// turned.
  ModelRotation(const models::Network& network, std::uint64_t seed);

  /// Throws kUsage when a LayerNorm before the output has a bias where its weight is 0: the output
  /// matrix has no bias that could take it.
  ChangedEnds ends(const models::Network& network, core::ThreadPool& pool) const override;

  /// Throws kUsage when a layer behind a LayerNorm with a bias has no bias of its own.
  models::Block block(const models::Block& original, core::ThreadPool& pool) const override;

 private:
  Rotation stream_;  // R1
  Rotation heads_;   // R2
};

}  // namespace nibble::compress
