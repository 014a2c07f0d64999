#include "compress/gqsa/group_saliency.h"

#include <algorithm>

#include "compress/pruning/sparsity.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 16;  // of one task

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// What the square of a weight is multiplied by, by input.
std::vector<double> factors_of(const InverseFactor& factor, Saliency saliency) {
  std::vector<double> factors = inverse_diagonal(factor);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double d = factors[i];
    factors[i] = factor.dead[i] ? 0.0 : 1 / (saliency == Saliency::kGqsa ? d * d : d);
  }
  return factors;
}

/// Sums of [n, groups] over the rows of each tile: [n / tile, groups].
std::vector<double> tile_sums(std::span<const double> saliency, std::int64_t groups,
                              std::int64_t tile) {
  std::vector<double> sums(saliency.size() / index(tile));
  for (std::int64_t at = 0; at < std::ssize(saliency); ++at) {
    sums[index(at / groups / tile * groups + at % groups)] += saliency[index(at)];
  }
  return sums;
}

}  // namespace

std::vector<double> inverse_diagonal(const InverseFactor& factor) {
  const std::size_t k = factor.order.size();
  std::vector<double> diagonal(k);
  for (std::size_t i = 0; i < k; ++i) {
    for (std::size_t j = i; j < k; ++j) {
      const double u = factor.upper[i * k + j];
      diagonal[index(factor.order[j])] += u * u;
    }
  }
  return diagonal;
}

std::vector<double> group_saliency(std::span<const float> weights, std::int64_t n,
                                   const InverseFactor& factor, const GroupSparsity& sparsity,
                                   core::ThreadPool& pool) {
  const std::vector<double> factors = factors_of(factor, sparsity.saliency);
  const auto k = static_cast<std::int64_t>(factors.size());
  const std::int64_t groups = k / sparsity.group;
  std::vector<double> result(index(n * groups));
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin * groups; at < end * groups; ++at) {
      const std::int64_t row = at / groups;
      double sum = 0;
      for (std::int64_t j = at % groups * sparsity.group; j < (at % groups + 1) * sparsity.group;
           ++j) {
        const double w = weights[index(row * k + j)];
        sum += w * w * factors[index(j)];
      }
      result[index(at)] = sum / static_cast<double>(sparsity.group);
    }
  });
  return result;
}

std::vector<std::uint8_t> choose_groups(std::span<const double> saliency, std::int64_t n,
                                        const GroupSparsity& sparsity) {
  const std::int64_t groups = std::ssize(saliency) / n;
  const std::vector<double> scores = tile_sums(saliency, groups, sparsity.tile);
  const std::int64_t all = std::ssize(scores);
  const std::int64_t together = sparsity.of_rows ? groups : all;  // groups that are compared
  std::vector<std::uint8_t> kept(scores.size(), 1);
  LowestScores lowest;
  for (std::int64_t first = 0; first < all; first += together) {
    lowest.prune(std::span(scores).subspan(index(first), index(together)),
                 share_of(sparsity.share, together),
                 std::span(kept).subspan(index(first), index(together)));
  }
  std::vector<std::uint8_t> weights(index(n * groups * sparsity.group));
  for (std::int64_t at = 0; at < n * groups; ++at) {
    const std::int64_t row = at / groups;
    std::fill_n(weights.begin() + at * sparsity.group, sparsity.group,
                kept[index(row / sparsity.tile * groups + at % groups)]);
  }
  return weights;
}

}  // namespace nibble::compress
