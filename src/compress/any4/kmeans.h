#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace nibble::compress {

/// A point of a weighted one-dimensional clustering.
struct WeightedPoint {
  double value = 0;
  double weight = 0;  // not negative
};

/// Weighted k-means on a line, solved exactly: the centres of the `clusters` intervals that
/// minimise the sum of weight * (value - centre)^2. Dynamic programming over the sorted points;
/// because optimal cuts move with the end of the interval, each layer is filled by divide and
/// conquer: O(clusters * n log n) (Wu 1991; Groenlund et al., arXiv 1701.07204, section 2).
///
/// `points` are sorted in place. Centres come in ascending order; when there are fewer distinct
/// values than clusters, or points without weight, centres repeat. The result doesn't depend on the
/// order of the points, nor on a common factor of the weights (beyond rounding). When no point has
/// weight, all count alike. At least one point and one cluster.
///
/// One object serves one thread; it keeps its memory between calls.
class KMeans {
 public:
  std::vector<double> centres(std::vector<WeightedPoint>& points, int clusters);

 private:
  void sum_points(std::vector<WeightedPoint>& points);
  double gain(std::int64_t begin, std::int64_t end) const;
  void fill_layer(std::int64_t layer);
  void fill_range(std::int64_t layer, std::int64_t low, std::int64_t high, std::int64_t first,
                  std::int64_t last);
  std::uint32_t best_cut(std::int64_t end, std::int64_t first, std::int64_t last,
                         double& best) const;

  std::vector<double> weights_;   // prefix sums over the sorted points: weight,
  std::vector<double> moments_;   // and weight * (value - middle)
  double middle_ = 0;             // of the values, so that little is lost in differences
  std::vector<double> previous_;  // best gain of one cluster less, by end
  std::vector<double> current_;
  std::vector<std::uint32_t> cuts_;  // [clusters, points + 1]: where the last cluster begins
};

}  // namespace nibble::compress
