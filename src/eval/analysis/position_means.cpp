#include "eval/analysis/position_means.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace nibble::eval {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Standard error of a value whose clusters leave `squares` behind, over `scale`.
double clustered_error(double squares, double scale, double windows) {
  if (windows < 2) {
    return kNone;
  }
  return std::sqrt(std::max(squares, 0.0) * windows / (windows - 1)) / scale;
}

}  // namespace

std::size_t octave_of(std::int64_t position) {
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(position - 1)));
}

Positions octave(std::size_t number) {
  return number == 0 ? Positions{1, 1}
                     : Positions{(std::int64_t{1} << (number - 1)) + 1, std::int64_t{1} << number};
}

void PositionMeans::Clusters::add(double count, double sum) {
  windows += 1;
  n += count;
  s += sum;
  nn += count * count;
  ns += count * sum;
  ss += sum * sum;
}

Estimate PositionMeans::Clusters::mean() const {
  if (windows == 0) {
    return {kNone, kNone};
  }
  const double mean = s / n;
  return {mean, clustered_error(ss - 2 * mean * ns + mean * mean * nn, n, windows)};
}

void PositionMeans::add_window(std::int64_t first, std::span<const double> values) {
  if (values.empty()) {
    return;
  }
  const std::size_t begin = static_cast<std::size_t>(first) - 1;
  const std::size_t end = begin + values.size();
  sums_.resize(std::max(sums_.size(), end));
  counts_.resize(sums_.size());
  octaves_.resize(std::max(octaves_.size(), octave_of(static_cast<std::int64_t>(end)) + 1));
  std::vector<double> sums(octaves_.size());
  std::vector<double> counts(octaves_.size());
  double all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t number = octave_of(first + static_cast<std::int64_t>(i));
    sums_[begin + i] += values[i];
    counts_[begin + i] += 1;
    sums[number] += values[i];
    counts[number] += 1;
    all += values[i];
  }
  for (std::size_t number = 0; number < octaves_.size(); ++number) {
    if (counts[number] > 0) {
      octaves_[number].add(counts[number], sums[number]);
    }
  }
  all_.add(static_cast<double>(values.size()), all);
}

double PositionMeans::at(std::int64_t position) const {
  const auto i = static_cast<std::size_t>(position) - 1;
  return i < sums_.size() && counts_[i] > 0 ? sums_[i] / static_cast<double>(counts_[i]) : kNone;
}

void DoublingSlope::add_window(std::int64_t first, std::span<const double> values) {
  Sums& sums = windows_.emplace_back();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = std::log2(static_cast<double>(first + static_cast<std::int64_t>(i)));
    sums.n += 1;
    sums.x += x;
    sums.y += values[i];
    sums.xx += x * x;
    sums.xy += x * values[i];
  }
}

DoublingSlope::Sums DoublingSlope::total() const {
  Sums total;
  for (const Sums& sums : windows_) {
    total.n += sums.n;
    total.x += sums.x;
    total.y += sums.y;
    total.xx += sums.xx;
    total.xy += sums.xy;
  }
  return total;
}

Estimate DoublingSlope::slope() const {
  const Sums all = total();
  const double middle = all.n > 0 ? all.x / all.n : 0;
  const double spread = all.xx - middle * all.x;
  if (!(spread > 0)) {
    return {kNone, kNone};  // one position
  }
  const double slope = (all.xy - middle * all.y) / spread;
  const double start = (all.y - slope * all.x) / all.n;
  double squares = 0;  // of sum((x - middle) (y - start - slope x)) over each window
  for (const Sums& w : windows_) {
    const double moment =
        w.xy - start * w.x - slope * w.xx - middle * (w.y - start * w.n - slope * w.x);
    squares += moment * moment;
  }
  return {slope, clustered_error(squares, spread, static_cast<double>(windows_.size()))};
}

}  // namespace nibble::eval
