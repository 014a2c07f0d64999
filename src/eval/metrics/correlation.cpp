#include "eval/metrics/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace nibble::eval {
namespace {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool is_constant(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return value == values.front(); });
}

// 1 for the smallest; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    const double shared = static_cast<double>(begin + 1 + end) / 2;
    for (; begin < end; ++begin) {
      result[order[begin]] = shared;
    }
  }
  return result;
}

}  // namespace

double pearson_correlation(std::span<const double> x, std::span<const double> y) {
  core::require(x.size() == y.size() && x.size() >= 2, core::ErrorKind::kUsage,
                "a correlation needs two lists of the same length, at least 2; got {} and {}",
                x.size(), y.size());
  if (is_constant(x) || is_constant(y)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double mean_x = mean(x);
  const double mean_y = mean(y);
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - mean_x;
    const double dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

double spearman_correlation(std::span<const double> x, std::span<const double> y) {
  return pearson_correlation(ranks(x), ranks(y));
}

}  // namespace nibble::eval
