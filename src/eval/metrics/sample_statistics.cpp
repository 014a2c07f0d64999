#include "eval/metrics/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/error.h"

namespace nibble::eval {
namespace {

constexpr double kNotDefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kNormal95 = 1.959963984540054;  // two-sided 95 % of the normal distribution

template <typename T>
double sum_of(std::span<const T> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// s / sqrt(n) around a known mean of the same values.
template <typename T>
double standard_error_of(std::span<const T> values, double mean) {
  if (values.size() < 2) {
    return kNotDefined;
  }
  double squares = 0;
  for (const T value : values) {
    const double difference = static_cast<double>(value) - mean;
    squares += difference * difference;
  }
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / (count - 1) / count);
}

void require_values(std::size_t count) {
  core::require(count > 0, core::ErrorKind::kFailed, "statistics of no values");
}

}  // namespace

Mean mean_of(std::span<const float> values, std::size_t window) {
  require_values(values.size());
  core::require(window > 0 && values.size() % window == 0, core::ErrorKind::kFailed,
                "{} values are not whole windows of {}", values.size(), window);
  std::vector<double> window_means;
  for (std::size_t at = 0; at < values.size(); at += window) {
    window_means.push_back(sum_of(values.subspan(at, window)) / static_cast<double>(window));
  }
  Mean mean;
  mean.value = sum_of(values) / static_cast<double>(values.size());
  mean.standard_error = standard_error_of(values, mean.value);
  mean.window_standard_error = standard_error_of(std::span<const double>(window_means), mean.value);
  return mean;
}

double share_standard_error(double share, std::int64_t count) {
  return std::sqrt(share * (1 - share) / static_cast<double>(count));
}

double quantile(std::span<const float> ascending, double q) {
  require_values(ascending.size());
  const double position = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double low = ascending[below];
  const double high = ascending[above];
  return low + (position - static_cast<double>(below)) * (high - low);
}

Interval quantile_interval(std::span<const float> ascending, double q) {
  require_values(ascending.size());
  const auto count = static_cast<double>(ascending.size());
  const double reach = kNormal95 * std::sqrt(count * q * (1 - q));
  const auto at_rank = [&](double rank) {
    return rank >= 1 && rank <= count
               ? static_cast<double>(ascending[static_cast<std::size_t>(rank) - 1])
               : kNotDefined;
  };
  return {at_rank(std::floor(count * q - reach)), at_rank(std::ceil(count * q + reach) + 1)};
}

}  // namespace nibble::eval
