#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/gqsa/group_saliency.h"
#include "compress/gqsa/kept_descent.h"
#include "compress/pruning/sparsegpt.h"

namespace nibble::compress {
namespace {

using Mask = std::vector<std::uint8_t>;

constexpr std::int64_t kOutputs = 40;
constexpr std::int64_t kInputs = 160;

InverseFactor factor_of(const std::vector<float>& hessian, bool descending = false) {
  const auto k = static_cast<std::int64_t>(std::llround(std::sqrt(hessian.size())));
  return inverse_factor(hessian, k, 0.01, descending);
}

// H = diag(1, 4, 16, 64): with a negligible damp D is 1, 1/4, 1/16, 1/64.
TEST(GroupSaliency, IsWhatThePaperSays) {
  std::vector<float> hessian(16);
  for (std::size_t i = 0; i < 4; ++i) {
    hessian[i * 5] = std::ldexp(1.0f, static_cast<int>(2 * i));
  }
  const InverseFactor factor = inverse_factor(hessian, 4, 1e-9, false);
  const std::vector<double> diagonal = inverse_diagonal(factor);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(diagonal[i] * static_cast<double>(hessian[i * 5]), 1, 1e-5);
  }
  core::ThreadPool pool(2);
  const std::vector<float> w = {2, 1, 1, 3, 1, 1, 0, 1};
  const auto gqsa = group_saliency(w, 2, factor, {.group = 2}, pool);
  const double expected[] = {(4 * 1 + 1 * 16) / 2.0, (1 * 256 + 9 * 4096) / 2.0, (1 + 16) / 2.0,
                             4096 / 2.0};
  const auto obs = group_saliency(w, 2, factor, {.group = 2, .saliency = Saliency::kObs}, pool);
  const double lighter[] = {(4 * 1 + 1 * 4) / 2.0, (1 * 16 + 9 * 64) / 2.0, (1 + 4) / 2.0, 32};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(gqsa[i], expected[i], 1e-4 * expected[i]);
    EXPECT_NEAR(obs[i], lighter[i], 1e-4 * lighter[i]);
  }
}

TEST(GroupSaliency, DependsOnNoOrderAndIgnoresInputsThatWereNeverActive) {
  const auto hessian = correlated_hessian(kInputs, 400, 1);
  const auto a = inverse_diagonal(factor_of(hessian, false));
  const auto b = inverse_diagonal(factor_of(hessian, true));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-4 * a[i]);
  }
  std::vector<float> silent = hessian;
  for (std::size_t i = 0; i < kInputs; ++i) {
    silent[i * kInputs + 3] = silent[3 * kInputs + i] = 0;
  }
  core::ThreadPool pool(1);
  std::vector<float> w(kInputs);
  w[3] = 1000;
  w[40] = 1;
  const auto saliency = group_saliency(w, 1, factor_of(silent), {}, pool);
  EXPECT_EQ(saliency[0], 0);
  EXPECT_GT(saliency[2], 0);
}

TEST(ChooseGroups, TakesTheLowestOfEachRowOrOfAll) {
  const std::vector<double> saliency = {1, 2, 3, 4,  //
                                        9, 8, 7, 6};
  EXPECT_EQ(choose_groups(saliency, 2, {.share = 0.5, .group = 1}), (Mask{0, 0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(choose_groups(saliency, 2, {.share = 0.5, .group = 1, .of_rows = false}),
            (Mask{0, 0, 0, 0, 1, 1, 1, 1}));
  // Sums of both rows: 10 10 10 10; with the first row alone changed, 14 10 10 10.
  EXPECT_EQ(choose_groups(saliency, 2, {.share = 0.5, .group = 1, .tile = 2}),
            (Mask{0, 0, 1, 1, 0, 0, 1, 1}));
  const std::vector<double> other = {5, 2, 3, 4, 9, 8, 7, 6};
  EXPECT_EQ(choose_groups(other, 2, {.share = 0.5, .group = 1, .tile = 2}),
            (Mask{1, 0, 0, 1, 1, 0, 0, 1}));
  EXPECT_EQ(choose_groups(saliency, 2, {.share = 0.25, .group = 2}),
            (Mask{0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(choose_groups(saliency, 2, {.share = 0.0, .group = 1}), Mask(8, 1));
}

TEST(GroupPruning, IsMadeUpFor) {
  core::ThreadPool pool(2);
  const auto w = core::normal_values(kOutputs * kInputs, 2);
  const auto hessian = correlated_hessian(kInputs, 400, 3);
  const InverseFactor factor = factor_of(hessian);
  std::vector<float> damped = hessian;  // what the descent lowers
  float mean = 0;
  for (std::size_t i = 0; i < kInputs; ++i) {
    mean += hessian[i * kInputs + i] / kInputs;
  }
  for (std::size_t i = 0; i < kInputs; ++i) {
    damped[i * kInputs + i] += 0.01f * mean;
  }
  for (const double share : {0.2, 0.5, 0.8}) {
    const GroupSparsity sparsity{.share = share, .group = 16};
    const Mask kept =
        choose_groups(group_saliency(w, kOutputs, factor, sparsity, pool), kOutputs, sparsity);
    std::vector<float> swept = w;
    prune_chosen(swept, kOutputs, kInputs, kept, factor, pool);
    std::vector<float> cut = w;
    for (std::size_t i = 0; i < w.size(); ++i) {
      EXPECT_TRUE(kept[i] != 0 || swept[i] == 0);
      cut[i] = kept[i] != 0 ? w[i] : 0.0f;
    }
    const auto loss_of = [&](const std::vector<float>& values) {
      return loss(
          w, formats::round_to_nearest(values, kOutputs, kInputs, formats::parse_scheme("f32")),
          damped);
    };
    const double before = loss_of(swept);
    descend_kept(swept, w, kept, kOutputs, kInputs, hessian, 0.01, 10, pool);
    const double after = loss_of(swept);
    EXPECT_LT(after, 0.97 * before) << share;
    EXPECT_LT(after, 0.97 * loss_of(cut)) << share;
    std::vector<float> longer = swept;
    descend_kept(longer, w, kept, kOutputs, kInputs, hessian, 0.01, 100, pool);
    EXPECT_LT(after, 1.05 * loss_of(longer)) << share;
    for (std::size_t i = 0; i < w.size(); ++i) {
      EXPECT_TRUE(kept[i] != 0 || swept[i] == 0);
    }
  }
}

}  // namespace
}  // namespace nibble::compress
