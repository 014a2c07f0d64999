#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/pruning/sparsegpt.h"
#include "compress/pruning/wanda.h"
#include "core/error.h"

namespace nibble::compress {
namespace {

using Mask = std::vector<std::uint8_t>;

constexpr std::int64_t kOutputs = 70;  // two tasks
constexpr std::int64_t kInputs = 288;  // three blocks

const Sparsity kPatterns[] = {{0.5, 0, 0}, {0.3, 0, 0},  {0.5, 2, 4},
                              {0.5, 4, 8}, {0.75, 3, 4}, {0.75, 12, 16}};

std::vector<float> diagonal_of(const std::vector<float>& hessian, std::int64_t k) {
  std::vector<float> diagonal;
  for (std::int64_t i = 0; i < k; ++i) {
    diagonal.push_back(hessian[static_cast<std::size_t>(i * k + i)]);
  }
  return diagonal;
}

std::vector<float> masked(std::vector<float> w, const Mask& kept) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = kept[i] != 0 ? w[i] : 0.0f;
  }
  return w;
}

Mask run_wanda(const std::vector<float>& w, const std::vector<float>& mean_squares,
               const Sparsity& sparsity, int threads = 2) {
  core::ThreadPool pool(threads);
  const auto k = static_cast<std::int64_t>(mean_squares.size());
  return wanda(w, static_cast<std::int64_t>(w.size()) / k, k, mean_squares, sparsity, pool);
}

// Weights after SparseGPT.
std::vector<float> run_sparsegpt(std::vector<float> w, const std::vector<float>& hessian,
                                 const Sparsity& sparsity, double damp = 0.01, int threads = 2,
                                 Mask* kept = nullptr) {
  core::ThreadPool pool(threads);
  const auto n = static_cast<std::int64_t>(w.size()) / kInputs;
  const Mask mask =
      sparsegpt(w, n, kInputs, sparsity, inverse_factor(hessian, kInputs, damp, false), pool);
  if (kept != nullptr) {
    *kept = mask;
  }
  return w;
}

double loss_of(const std::vector<float>& w, const std::vector<float>& pruned,
               const std::vector<float>& hessian) {
  return loss(w, formats::round_to_nearest(pruned, kOutputs, kInputs, formats::parse_scheme("f32")),
              hessian);
}

TEST(Wanda, PrunesWhatCarriesLeast) {
  const std::vector<float> w = {1, -2, 3,  -4,  //
                                4, 3,  -2, 1};
  const std::vector<float> mean_squares = {100, 1, 4, 0.25};  // roots 10, 1, 2, 0.5
  EXPECT_EQ(run_wanda(w, mean_squares, {0.25, 0, 0}), (Mask{1, 0, 1, 1, 1, 1, 1, 0}))
      << "10, 2, 6, 2 (the first of equals); 40, 3, 4, 0.5";
  EXPECT_EQ(run_wanda(w, mean_squares, {0.5, 2, 4}), (Mask{1, 0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(run_wanda(w, mean_squares, {0.0, 0, 0}), Mask(8, 1));
}

TEST(Wanda, ComparesWeightsOfARowOrOfAGroupOnly) {
  std::vector<float> w = core::normal_values(kOutputs * kInputs, 1);
  for (std::int64_t i = 0; i < kInputs; ++i) {
    w[static_cast<std::size_t>(i)] *= 1000;  // the first row is not spared
  }
  const std::vector<float> ones(kInputs, 1.0f);
  for (const Sparsity& sparsity : kPatterns) {
    const Mask kept = run_wanda(w, ones, sparsity);
    const std::int64_t width = sparsity.of == 0 ? kInputs : sparsity.of;
    const std::int64_t count = sparsity.of == 0 ? share_of(sparsity.share, width) : sparsity.pruned;
    for (auto at = kept.begin(); at != kept.end(); at += width) {
      ASSERT_EQ(std::count(at, at + width, 0), count);
    }
  }
}

TEST(SparseGpt, PrunesTheSharesAskedFor) {
  const auto w = core::normal_values(kOutputs * kInputs, 2);
  const auto hessian = correlated_hessian(kInputs, 600, 3);
  for (const Sparsity& sparsity : kPatterns) {
    Mask kept;
    const auto pruned = run_sparsegpt(w, hessian, sparsity, 0.01, 2, &kept);
    EXPECT_EQ(pruned, masked(pruned, kept));
    EXPECT_EQ(std::count(pruned.begin(), pruned.end(), 0.0f),
              std::count(kept.begin(), kept.end(), 0))
        << "kept weights are not zero";
    for (std::int64_t begin = 0; sparsity.of == 0 && begin < kInputs; begin += 128) {
      const std::int64_t end = std::min(kInputs, begin + 128);
      std::int64_t zeros = 0;
      for (std::int64_t row = 0; row < kOutputs; ++row) {
        zeros +=
            std::count(kept.begin() + row * kInputs + begin, kept.begin() + row * kInputs + end, 0);
      }
      EXPECT_EQ(zeros, share_of(sparsity.share, kOutputs * (end - begin)));
    }
    for (auto at = kept.begin(); sparsity.of != 0 && at != kept.end(); at += sparsity.of) {
      ASSERT_EQ(std::count(at, at + sparsity.of, 0), sparsity.pruned);
    }
  }
}

TEST(SparseGpt, LosesLessThanWandaAndWandaLessThanMagnitude) {
  const std::vector<float> ones(kInputs, 1.0f);
  for (std::uint64_t seed = 10; seed < 13; ++seed) {
    const auto w = core::normal_values(kOutputs * kInputs, seed);
    const auto hessian = correlated_hessian(kInputs, 600, seed + 100);
    for (const Sparsity& sparsity : kPatterns) {
      const double magnitude = loss_of(w, masked(w, run_wanda(w, ones, sparsity)), hessian);
      const double by_wanda =
          loss_of(w, masked(w, run_wanda(w, diagonal_of(hessian, kInputs), sparsity)), hessian);
      EXPECT_LT(by_wanda, 0.9 * magnitude);
      EXPECT_LT(loss_of(w, run_sparsegpt(w, hessian, sparsity), hessian), 0.9 * by_wanda);
    }
  }
}

// Then nothing can be made up for, and both scores are w^2 E[x^2].
TEST(SparseGpt, IsWandaWhenInputsAreIndependent) {
  const auto w = core::normal_values(kOutputs * kInputs, 4);
  std::vector<float> diagonal(kInputs * kInputs, 0.0f);
  for (std::size_t i = 0; i < kInputs; ++i) {
    diagonal[i * kInputs + i] = 1.0f + static_cast<float>(i % 5);
  }
  for (const Sparsity& sparsity : {Sparsity{0.5, 2, 4}, Sparsity{0.5, 4, 8}}) {
    EXPECT_EQ(run_sparsegpt(w, diagonal, sparsity, 0.0),
              masked(w, run_wanda(w, diagonal_of(diagonal, kInputs), sparsity)));
  }
}

TEST(SparseGpt, PrunesInputsThatWereNeverActiveFirst) {
  const auto w = core::normal_values(kOutputs * kInputs, 5);
  auto hessian = correlated_hessian(kInputs, 600, 6);
  for (std::int64_t i = 0; i < kInputs; ++i) {
    for (std::int64_t j = 0; j < kInputs; ++j) {
      if (i % 4 == 1 || j % 4 == 1) {
        hessian[static_cast<std::size_t>(i * kInputs + j)] = 0;
      }
    }
  }
  for (const Sparsity& sparsity : kPatterns) {
    Mask kept;
    run_sparsegpt(w, hessian, sparsity, 0.01, 2, &kept);
    for (std::size_t i = 1; i < kept.size(); i += 4) {
      ASSERT_EQ(kept[i], 0);
    }
  }
  const std::vector<float> silent(kInputs * kInputs, 0.0f);
  EXPECT_EQ(run_sparsegpt(w, silent, {0.5, 2, 4}),
            masked(w, run_wanda(w, std::vector<float>(kInputs, 1.0f), {0.5, 2, 4})))
      << "without any active input: by magnitude";
}

TEST(Pruning, ThreadsDoNotChangeTheResult) {
  const auto w = core::normal_values(200 * kInputs, 7);
  const auto hessian = correlated_hessian(kInputs, 600, 8);
  const auto diagonal = diagonal_of(hessian, kInputs);
  for (const Sparsity& sparsity : kPatterns) {
    EXPECT_EQ(run_wanda(w, diagonal, sparsity, 1), run_wanda(w, diagonal, sparsity, 2));
    EXPECT_EQ(run_sparsegpt(w, hessian, sparsity, 0.01, 1),
              run_sparsegpt(w, hessian, sparsity, 0.01, 2));
  }
}

TEST(Pruning, RefusesLayersThatItCannotPrune) {
  ops::Linear linear;
  linear.weight.n = 2;
  linear.weight.k = 6;
  LayerWork layer;
  layer.layer = &linear;
  layer.weights.assign(12, 1.0f);
  EXPECT_NO_THROW(require_prunable(layer, {0.5, 0, 0}));
  EXPECT_THROW(require_prunable(layer, {0.5, 2, 4}), core::Error);
  layer.weights[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(require_prunable(layer, {0.5, 0, 0}), core::Error);
}

}  // namespace
}  // namespace nibble::compress
