#include "compress/pruning/sparsegpt.h"

#include <algorithm>

#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kBlock = 128;  // inputs between two updates of all later weights
constexpr std::int64_t kRows = 64;    // output rows of one task

// Instead of the curvature of an input that was never active: such inputs go first, and among
// themselves by magnitude.
constexpr double kSilent = 1e-30;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

class Sweep {
 public:
  /// `kept`: what has been chosen; empty: to be chosen by `sparsity`.
  Sweep(std::span<float> weights, std::int64_t n, std::int64_t k, const Sparsity& sparsity,
        std::span<const std::uint8_t> kept, const InverseFactor& factor, core::ThreadPool& pool)
      : weights_(weights),
        n_(n),
        k_(k),
        sparsity_(sparsity),
        factor_(factor),
        pool_(pool),
        is_chosen_(!kept.empty()),
        kept_(kept.begin(), kept.end()) {
    kept_.resize(weights.size(), 1);
    for (std::int64_t i = 0; i < k; ++i) {
      const double u = *upper(i, i);
      curvature_.push_back(factor.dead[index(i)] ? kSilent : 1 / (u * u));
    }
  }

  std::vector<std::uint8_t> run() {
    for (std::int64_t begin = 0; begin < k_; begin += kBlock) {
      const std::int64_t end = std::min(k_, begin + kBlock);
      if (!is_chosen_ && sparsity_.of == 0) {
        choose(begin, end);
      }
      pool_.parallel_for(n_, kRows, [&](std::int64_t first, std::int64_t last) {
        prune_rows(first, last, begin, end);
      });
    }
    return std::move(kept_);
  }

 private:
  const float* upper(std::int64_t i, std::int64_t j) const {
    return factor_.upper.data() + i * k_ + j;
  }
  float* weight(std::int64_t row, std::int64_t i) { return &weights_[index(row * k_ + i)]; }
  double score(std::int64_t row, std::int64_t i) {
    const double w = *weight(row, i);
    return w * w * curvature_[index(i)];
  }

  // The lowest scores of inputs [begin, end) of all rows together.
  void choose(std::int64_t begin, std::int64_t end) {
    const std::int64_t width = end - begin;
    std::vector<double> scores(index(n_ * width));
    pool_.parallel_for(n_, kRows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t at = first * width; at < last * width; ++at) {
        scores[index(at)] = score(at / width, begin + at % width);
      }
    });
    std::vector<std::uint8_t> kept(scores.size(), 1);
    LowestScores().prune(scores, share_of(sparsity_.share, n_ * width), kept);
    for (std::int64_t row = 0; row < n_; ++row) {
      std::copy_n(&kept[index(row * width)], width, &kept_[index(row * k_ + begin)]);
    }
  }

  // The lowest scores of one row's next inputs, as the updates have left them.
  void choose_next(std::int64_t row, std::int64_t i, LowestScores& lowest,
                   std::vector<double>& scores) {
    scores.clear();
    for (std::int64_t j = i; j < i + sparsity_.of; ++j) {
      scores.push_back(score(row, j));
    }
    lowest.prune(scores, sparsity_.pruned,
                 std::span(kept_).subspan(index(row * k_ + i), scores.size()));
  }

  void prune_rows(std::int64_t first, std::int64_t last, std::int64_t begin, std::int64_t end) {
    LowestScores lowest;
    std::vector<double> scores;
    std::vector<float> errors(index((last - first) * kBlock));
    for (std::int64_t row = first; row < last; ++row) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (!is_chosen_ && sparsity_.of != 0 && i % sparsity_.of == 0) {
          choose_next(row, i, lowest, scores);
        }
        if (kept_[index(row * k_ + i)] != 0) {
          continue;
        }
        const float error = *weight(row, i) / *upper(i, i);
        *weight(row, i) = 0;
        for (std::int64_t j = i + 1; j < end; ++j) {
          *weight(row, j) -= error * *upper(i, j);
        }
        errors[index((row - first) * kBlock + i - begin)] = error;
      }
    }
    if (end < k_) {  // weights[:, end:] -= errors U[block, end:]
      ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans,
                             static_cast<int>(last - first), static_cast<int>(k_ - end),
                             static_cast<int>(end - begin), -1.0f, errors.data(),
                             static_cast<int>(kBlock), upper(begin, end), static_cast<int>(k_),
                             1.0f, weight(first, end), static_cast<int>(k_));
    }
  }

  std::span<float> weights_;
  std::int64_t n_;
  std::int64_t k_;
  const Sparsity& sparsity_;
  const InverseFactor& factor_;
  core::ThreadPool& pool_;
  bool is_chosen_;
  std::vector<std::uint8_t> kept_;
  std::vector<double> curvature_;  // 1 / U_ii^2 of each input
};

}  // namespace

std::vector<std::uint8_t> sparsegpt(std::span<float> weights, std::int64_t n, std::int64_t k,
                                    const Sparsity& sparsity, const InverseFactor& factor,
                                    core::ThreadPool& pool) {
  return Sweep(weights, n, k, sparsity, {}, factor, pool).run();
}

void prune_chosen(std::span<float> weights, std::int64_t n, std::int64_t k,
                  std::span<const std::uint8_t> kept, const InverseFactor& factor,
                  core::ThreadPool& pool) {
  Sweep(weights, n, k, Sparsity(), kept, factor, pool).run();
}

}  // namespace nibble::compress
