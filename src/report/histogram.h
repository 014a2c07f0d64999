#pragma once

#include <string>
#include <vector>

#include "report/axis.h"

namespace nibble::report {

/// A line across a histogram at a value.
struct Mark {
  double value = 0;
  std::string label;
};

/// Columns of equal width over [low, high], with marks drawn over them.
struct Histogram {
  std::string title;
  std::string x_name;
  double low = 0;
  double high = 0;
  Scaling y_scaling = Scaling::kLinear;  // kLogarithmic: heights by log(1 + count), to see tails
  std::vector<double> counts;
  std::vector<Mark> marks;
};

std::string to_svg(const Histogram& histogram);

}  // namespace nibble::report
