#pragma once

#include <string>
#include <vector>

namespace nibble::report {

enum class Scaling { kLinear, kLogarithmic };

struct Tick {
  double value = 0;
  std::string label;
};

/// Values to pixels. The range is widened so that the data do not touch the ends, and an empty one
/// is opened.
class Axis {
 public:
  /// Data in [low, high], drawn between two pixel positions (either may be the larger one). Throws
  /// kFailed for bounds that are not finite, not in order, or not positive on a logarithmic axis.
  Axis(Scaling scaling, double low, double high, double low_pixel, double high_pixel);

  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }

  /// Linear: multiples of 1, 2 or 5 times a power of ten, about six. Logarithmic: powers of ten,
  /// with 2 and 5 times them in up to two decades, 2, 3, 4, 6, 8 times them in one, and as on a
  /// linear axis in less than half of one. No two labels are equal.
  std::vector<Tick> ticks() const;

 private:
  Scaling scaling_;
  double low_;
  double high_;
  double low_pixel_;
  double high_pixel_;
};

}  // namespace nibble::report
