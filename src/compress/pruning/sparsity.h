#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/block/block_work.h"
#include "compress/recipe/pass_options.h"

namespace nibble::compress {

/// How many weights a pass prunes.
struct Sparsity {
  double share = 0.5;       // unstructured: of each row (Wanda) or block of inputs (SparseGPT)
  std::int64_t pruned = 0;  // N:M: M - N of every `of` = M consecutive inputs of a row
  std::int64_t of = 0;      // 0: unstructured
};

/// Options "pattern" ("unstructured", or N:M: at most N weights of every M consecutive inputs of a
/// row are kept, N < M, M of 2, 4, 8, 16) and "sparsity" (0.5; unstructured only) of a pass. Throws
/// kUsage.
Sparsity read_sparsity(PassOptions& options);

/// Throws kInvalidModel when a pattern doesn't divide the layer's inputs, or a weight is not
/// finite.
void require_prunable(const LayerWork& layer, const Sparsity& sparsity);

/// Sets layer.weights to 0 where layer.kept is 0.
void zero_pruned(LayerWork& layer);

/// Picks the lowest scores; keeps its memory between calls.
class LowestScores {
 public:
  /// Sets kept[i] to 0 for the `count` lowest scores, the first of equals. Scores are not NaN.
  void prune(std::span<const double> scores, std::int64_t count, std::span<std::uint8_t> kept);

 private:
  std::vector<double> sorted_;
};

/// The number of weights that `share` of `count` is, to the nearest.
std::int64_t share_of(double share, std::int64_t count);

}  // namespace nibble::compress
