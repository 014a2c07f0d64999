#pragma once

#include <cstdint>
#include <span>

namespace nibble::eval {

/// A mean with its standard error under two assumptions; NaN where it is not defined.
struct Mean {
  double value = 0;
  double standard_error = 0;         // values independent: s / sqrt(n), s with n - 1; needs n >= 2
  double window_standard_error = 0;  // windows independent, whatever happens inside them: the same
                                     // over the windows' means; needs 2 windows
};

/// Mean of values that came from windows of `window` values each (n = windows * window, n >= 1).
/// Sums are double, in the order of the values.
Mean mean_of(std::span<const float> values, std::size_t window);

/// sqrt(p (1 - p) / n): standard error of a share p of n independent yes-or-no outcomes.
double share_standard_error(double share, std::int64_t count);

/// The q-quantile of ascending values, linear between the order statistics around (n - 1) q:
/// definition 7 of Hyndman & Fan (1996), numpy.quantile's default.
double quantile(std::span<const float> ascending, double q);

/// An interval that holds the q-quantile of the population with about 95 %, whatever the
/// distribution: the order statistics of ranks floor(nq - z sqrt(nq(1 - q))) and
/// ceil(nq + z sqrt(nq(1 - q))) + 1, counted from 1, z = 1.96 (Conover, Practical Nonparametric
/// Statistics, section 3.2). A bound whose rank lies outside the sample is NaN.
struct Interval {
  double low = 0;
  double high = 0;
};
Interval quantile_interval(std::span<const float> ascending, double q);

}  // namespace nibble::eval
