#include "compress/any4/kmeans.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace nibble::compress {
namespace {

constexpr double kRoundOff = 0x1p-52;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

// Points whose weight is lost in a sum of all are dropped, unless no point has any weight.
void KMeans::sum_points(std::vector<WeightedPoint>& points) {
  double largest = 0;
  for (const WeightedPoint& point : points) {
    largest = std::max(largest, point.weight);
  }
  if (largest > 0) {
    const double least = largest * static_cast<double>(points.size()) * kRoundOff;
    std::erase_if(points, [least](const WeightedPoint& point) { return point.weight <= least; });
  } else {
    for (WeightedPoint& point : points) {
      point.weight = 1;
    }
  }
  std::sort(points.begin(), points.end(), [](const WeightedPoint& a, const WeightedPoint& b) {
    return a.value < b.value || (a.value == b.value && a.weight < b.weight);
  });
  middle_ = (points.front().value + points.back().value) / 2;
  weights_.assign(1, 0.0);
  moments_.assign(1, 0.0);
  for (const WeightedPoint& point : points) {
    weights_.push_back(weights_.back() + point.weight);
    moments_.push_back(moments_.back() + point.weight * (point.value - middle_));
  }
}

// What a cluster of the points [begin, end) saves against the constant sum of weight * value^2: the
// larger, the better.
double KMeans::gain(std::int64_t begin, std::int64_t end) const {
  const double weight = weights_[index(end)] - weights_[index(begin)];
  const double moment = moments_[index(end)] - moments_[index(begin)];
  return weight > 0 ? moment * moment / weight : 0.0;
}

// Where the last cluster of the points before `end` begins, in [first, last]; the first of equals.
std::uint32_t KMeans::best_cut(std::int64_t end, std::int64_t first, std::int64_t last,
                               double& best) const {
  const double weight = weights_[index(end)];
  const double moment = moments_[index(end)];
  std::int64_t cut = first;
  best = -1;
  for (std::int64_t begin = first; begin <= std::min(last, end); ++begin) {
    const double rest = weight - weights_[index(begin)];
    const double part = moment - moments_[index(begin)];
    const double value = previous_[index(begin)] + (rest > 0 ? part * part / rest : 0.0);
    if (value > best) {
      best = value;
      cut = begin;
    }
  }
  return static_cast<std::uint32_t>(cut);
}

void KMeans::fill_range(std::int64_t layer, std::int64_t low, std::int64_t high, std::int64_t first,
                        std::int64_t last) {
  if (low > high) {
    return;
  }
  const std::int64_t middle = (low + high) / 2;
  const std::int64_t cut = best_cut(middle, first, last, current_[index(middle)]);
  const auto width = static_cast<std::int64_t>(previous_.size());
  cuts_[index(layer * width + middle)] = static_cast<std::uint32_t>(cut);
  fill_range(layer, low, middle - 1, first, cut);
  fill_range(layer, middle + 1, high, cut, last);
}

void KMeans::fill_layer(std::int64_t layer) {
  const auto count = static_cast<std::int64_t>(previous_.size()) - 1;
  fill_range(layer, 0, count, 0, count);
  std::swap(previous_, current_);
}

std::vector<double> KMeans::centres(std::vector<WeightedPoint>& points, int clusters) {
  assert(!points.empty() && clusters >= 1);
  sum_points(points);
  const auto count = static_cast<std::int64_t>(points.size());
  previous_.resize(index(count + 1));
  current_.resize(index(count + 1));
  cuts_.assign(index(clusters * (count + 1)), 0);
  for (std::int64_t end = 0; end <= count; ++end) {
    previous_[index(end)] = gain(0, end);
  }
  for (std::int64_t layer = 1; layer + 1 < clusters; ++layer) {
    fill_layer(layer);
  }
  if (clusters > 1) {  // of the last layer one entry is enough
    double best = 0;
    cuts_[index((clusters - 1) * (count + 1) + count)] = best_cut(count, 0, count, best);
  }
  std::vector<double> result(index(clusters));
  std::int64_t end = count;
  for (std::int64_t layer = clusters - 1; layer >= 0; --layer) {
    const std::int64_t begin = cuts_[index(layer * (count + 1) + end)];
    const double weight = weights_[index(end)] - weights_[index(begin)];
    // An empty cluster takes the place of the point it stands before.
    result[index(layer)] = weight > 0
                               ? middle_ + (moments_[index(end)] - moments_[index(begin)]) / weight
                               : points[index(std::min(begin, count - 1))].value;
    end = begin;
  }
  return result;
}

}  // namespace nibble::compress
