#include "compress/pruning/sparsity.h"

#include <algorithm>
#include <cmath>

namespace nibble::compress {

using core::ErrorKind;

Sparsity read_sparsity(PassOptions& options) {
  constexpr double kMost = 0.99;
  Sparsity sparsity;
  const bool given = options.given("sparsity");
  sparsity.share = options.number("sparsity", sparsity.share, 0.0, kMost);
  const std::string_view pattern = options.choice("pattern", {"unstructured", "2:4", "4:8"});
  core::require(pattern == "unstructured" || !given, ErrorKind::kUsage,
                "recipe: pattern {} prunes half of the weights; leave out the option 'sparsity'",
                pattern);
  if (pattern == "2:4") {
    sparsity.pruned = 2;
    sparsity.of = 4;
  } else if (pattern == "4:8") {
    sparsity.pruned = 4;
    sparsity.of = 8;
  }
  return sparsity;
}

void require_exact_zero(const formats::Scheme& scheme, std::string_view pass) {
  core::require(
      scheme.code.book != formats::Book::kPerRow && scheme.code.book != formats::Book::kPerMatrix,
      ErrorKind::kUsage,
      "recipe: pass '{}' can't serve {}: a learned book may hold no exact 0; take a "
      "scheme of integers, lut4-nf4, lut4-fp4, lut4-af4, mxfp4, nvfp4 or 16 bits",
      pass, scheme);
}

void require_prunable(const LayerWork& layer, const Sparsity& sparsity) {
  core::require(sparsity.of == 0 || layer.k() % sparsity.of == 0, ErrorKind::kInvalidModel,
                "{} inputs can't be pruned in groups of {}; take the pattern 'unstructured'",
                layer.k(), sparsity.of);
  for (std::size_t i = 0; i < layer.weights.size(); ++i) {
    core::require(std::isfinite(layer.weights[i]), ErrorKind::kInvalidModel,
                  "weight {} of output {} is {}; pruning needs finite weights",
                  i % static_cast<std::size_t>(layer.k()), i / static_cast<std::size_t>(layer.k()),
                  layer.weights[i]);
  }
}

void zero_pruned(LayerWork& layer) {
  for (std::size_t i = 0; i < layer.kept.size(); ++i) {
    layer.weights[i] = layer.kept[i] != 0 ? layer.weights[i] : 0.0f;
  }
}

void LowestScores::prune(std::span<const double> scores, std::int64_t count,
                         std::span<std::uint8_t> kept) {
  if (count == 0) {
    return;
  }
  sorted_.assign(scores.begin(), scores.end());
  const auto last = sorted_.begin() + (count - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end());
  const double limit = *last;
  // All below the limit, and as many of those at it as are still to go.
  auto equals = count - std::count_if(scores.begin(), scores.end(),
                                      [&](double score) { return score < limit; });
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < limit) {
      kept[i] = 0;
    } else if (scores[i] == limit && equals > 0) {
      kept[i] = 0;
      --equals;
    }
  }
}

std::int64_t share_of(double share, std::int64_t count) {
  return std::llround(share * static_cast<double>(count));
}

}  // namespace nibble::compress
