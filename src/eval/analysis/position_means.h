#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::eval {

/// Positions first ... last of a window, counted from 1, that tables show as one.
struct Positions {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Where a position lies among 1, 2, 3-4, 5-8, 9-16, ...; and the positions of one of these.
std::size_t octave_of(std::int64_t position);
Positions octave(std::size_t number);

/// A mean, or a slope, with its standard error: windows are independent, whatever happens inside
/// them. NaN where it is not defined (the error: fewer than two windows).
struct Estimate {
  double value = 0;
  double standard_error = 0;
};

/// A quantity by the position of its token in the window, over many windows.
class PositionMeans {
 public:
  /// What one window has: values[i] at position first + i.
  void add_window(std::int64_t first, std::span<const double> values);

  /// The last position that any window has; 0: none.
  std::int64_t positions() const { return static_cast<std::int64_t>(sums_.size()); }
  /// Mean over the windows that have this position; NaN where there is none.
  double at(std::int64_t position) const;
  std::size_t octaves() const { return octaves_.size(); }
  /// Mean of all values of an octave, each weighing the same.
  Estimate in_octave(std::size_t number) const { return octaves_[number].mean(); }
  /// Mean of all values.
  Estimate all() const { return all_.mean(); }

 private:
  // A mean of values that came in clusters (windows) of n values with the sum s: the ratio
  // estimator sum(s) / sum(n) and its error (Cochran, Sampling Techniques, section 6.3).
  struct Clusters {
    double windows = 0;
    double n = 0;
    double s = 0;
    double nn = 0;
    double ns = 0;
    double ss = 0;
    void add(double count, double sum);
    Estimate mean() const;
  };

  std::vector<double> sums_;  // by position
  std::vector<std::int64_t> counts_;
  std::vector<Clusters> octaves_;
  Clusters all_;
};

/// By how much a quantity grows with each doubling of the position: the slope of one line through
/// all values over log2(position), by least squares.
class DoublingSlope {
 public:
  void add_window(std::int64_t first, std::span<const double> values);
  Estimate slope() const;

 private:
  // Sums over a window; x is log2(position), y the value.
  struct Sums {
    double n = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
  };
  Sums total() const;

  std::vector<Sums> windows_;
};

}  // namespace nibble::eval
