#include "compress/pruning/wanda.h"

#include <algorithm>
#include <cmath>

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 16;  // rows of one task

}  // namespace

std::vector<std::uint8_t> wanda(std::span<const float> weights, std::int64_t n, std::int64_t k,
                                std::span<const float> mean_squares, const Sparsity& sparsity,
                                core::ThreadPool& pool) {
  const std::int64_t width = sparsity.of == 0 ? k : sparsity.of;
  const std::int64_t count = sparsity.of == 0 ? share_of(sparsity.share, k) : sparsity.pruned;
  const auto size = static_cast<std::size_t>(width);
  std::vector<double> norms(mean_squares.begin(), mean_squares.end());
  std::transform(norms.begin(), norms.end(), norms.begin(), [](double x) { return std::sqrt(x); });
  std::vector<std::uint8_t> kept(weights.size(), 1);
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    LowestScores lowest;
    std::vector<double> scores(size);
    for (std::int64_t at = begin * k; at < end * k; at += width) {
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t weight = static_cast<std::size_t>(at) + i;
        scores[i] = std::abs(static_cast<double>(weights[weight])) *
                    (norms.empty() ? 1.0 : norms[weight % norms.size()]);
      }
      lowest.prune(scores, count, std::span(kept).subspan(static_cast<std::size_t>(at), size));
    }
  });
  return kept;
}

}  // namespace nibble::compress
