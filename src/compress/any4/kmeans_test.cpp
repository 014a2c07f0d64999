#include "compress/any4/kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "core/random.h"

namespace nibble::compress {
namespace {

// What points lose when each goes to its nearest centre.
double loss(const std::vector<WeightedPoint>& points, const std::vector<double>& centres) {
  double total = 0;
  for (const WeightedPoint& point : points) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const double centre : centres) {
      nearest = std::min(nearest, (point.value - centre) * (point.value - centre));
    }
    total += point.weight * nearest;
  }
  return total;
}

double loss_of_cluster(const std::vector<WeightedPoint>& sorted, std::size_t begin,
                       std::size_t end) {
  double weight = 0;
  double moment = 0;
  for (std::size_t i = begin; i < end; ++i) {
    weight += sorted[i].weight;
    moment += sorted[i].weight * sorted[i].value;
  }
  double total = 0;
  for (std::size_t i = begin; i < end; ++i) {
    total += sorted[i].weight * std::pow(sorted[i].value - moment / weight, 2);
  }
  return total;
}

// The least loss over all ways to cut the sorted points into at most `clusters` runs.
double best_by_enumeration(const std::vector<WeightedPoint>& sorted, std::size_t begin,
                           int clusters) {
  if (begin == sorted.size()) {
    return 0;
  }
  if (clusters == 1) {
    return loss_of_cluster(sorted, begin, sorted.size());
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t end = begin + 1; end <= sorted.size(); ++end) {
    best = std::min(
        best, loss_of_cluster(sorted, begin, end) + best_by_enumeration(sorted, end, clusters - 1));
  }
  return best;
}

std::vector<WeightedPoint> random_points(std::size_t count, core::Random& random) {
  std::vector<WeightedPoint> points(count);
  for (WeightedPoint& point : points) {
    point = {random.normal() + 3.0, std::exp(2.0 * random.normal())};
  }
  return points;
}

TEST(KMeans, FindsTheBestOfAllClusterings) {
  core::Random random(1);
  KMeans kmeans;
  for (std::size_t count = 1; count <= 11; ++count) {
    for (int clusters = 1; clusters <= 4; ++clusters) {
      auto points = random_points(count, random);
      const auto centres = kmeans.centres(points, clusters);
      EXPECT_TRUE(std::is_sorted(centres.begin(), centres.end()));
      ASSERT_EQ(centres.size(), static_cast<std::size_t>(clusters));
      const double expected = best_by_enumeration(points, 0, clusters);
      EXPECT_NEAR(loss(points, centres), expected, 1e-9 * (1 + expected))
          << count << " points, " << clusters << " clusters";
    }
  }
}

TEST(KMeans, LosesNothingWhenThereAreNoMoreValuesThanClusters) {
  std::vector<WeightedPoint> points;
  for (int i = 0; i < 300; ++i) {
    points.push_back({static_cast<double>(i * 7 % 12), 1.0 + i % 3});
  }
  auto copy = points;
  EXPECT_LT(loss(points, KMeans().centres(copy, 16)), 1e-18);
}

TEST(KMeans, DependsNeitherOnOrderNorOnAFactorOfTheWeights) {
  core::Random random(2);
  auto points = random_points(700, random);
  auto reversed = points;
  std::reverse(reversed.begin(), reversed.end());
  auto heavier = points;
  for (WeightedPoint& point : heavier) {
    point.weight *= 1024;
  }
  const auto expected = KMeans().centres(points, 16);
  EXPECT_EQ(KMeans().centres(reversed, 16), expected);
  EXPECT_EQ(KMeans().centres(heavier, 16), expected);
}

TEST(KMeans, BeatsLloydFromEverySpread) {
  core::Random random(3);
  auto points = random_points(512, random);
  auto copy = points;
  const double exact = loss(points, KMeans().centres(copy, 16));
  for (const double spread : {0.5, 1.0, 2.0, 3.0}) {
    std::vector<double> centres(16);
    for (std::size_t i = 0; i < centres.size(); ++i) {
      centres[i] = 3.0 + spread * (static_cast<double>(i) / 7.5 - 1);
    }
    for (int round = 0; round < 200; ++round) {
      std::vector<double> weight(16);
      std::vector<double> moment(16);
      for (const WeightedPoint& point : points) {
        const auto at = static_cast<std::size_t>(
            std::min_element(centres.begin(), centres.end(),
                             [&](double a, double b) {
                               return std::abs(a - point.value) < std::abs(b - point.value);
                             }) -
            centres.begin());
        weight[at] += point.weight;
        moment[at] += point.weight * point.value;
      }
      for (std::size_t i = 0; i < centres.size(); ++i) {
        centres[i] = weight[i] > 0 ? moment[i] / weight[i] : centres[i];
      }
    }
    EXPECT_LE(exact, loss(points, centres) * (1 + 1e-12)) << spread;
  }
}

TEST(KMeans, IsNotLedAstrayByWeightsOfAllSizes) {
  core::Random random(4);
  std::vector<WeightedPoint> points;
  for (int i = 0; i < 400; ++i) {
    points.push_back({random.normal(), std::exp(60.0 * random.uniform() - 30)});
  }
  points.push_back({0.5, 1e-300});
  const auto all = points;
  const auto centres = KMeans().centres(points, 16);
  for (int i = 0; i < 200; ++i) {  // no other set of centres does better
    auto moved = centres;
    moved[static_cast<std::size_t>(i) % 16] += 0.05 * random.normal();
    EXPECT_LE(loss(all, centres), loss(all, moved) * (1 + 1e-9));
  }
}

TEST(KMeans, TakesPointsWithoutWeightAndSinglePoints) {
  std::vector<WeightedPoint> silent = {{1, 0}, {2, 0}, {5, 0}};
  const auto alike = KMeans().centres(silent, 3);
  EXPECT_EQ(std::set<double>(alike.begin(), alike.end()), (std::set<double>{1, 2, 5}));
  std::vector<WeightedPoint> one = {{7, 2}};
  EXPECT_EQ(KMeans().centres(one, 4), std::vector<double>(4, 7.0));
  std::vector<WeightedPoint> mixed = {{-100, 0}, {1, 1}, {3, 1}, {100, 0}};
  EXPECT_EQ(KMeans().centres(mixed, 1), std::vector<double>{2.0});
}

}  // namespace
}  // namespace nibble::compress
