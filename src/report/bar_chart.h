#pragma once

#include <string>
#include <vector>

namespace nibble::report {

struct Bar {
  std::string label;
  double value = 0;  // not negative
};

/// Horizontal bars from zero, one below the other, each with its label and value.
struct BarChart {
  std::string title;
  std::vector<Bar> bars;
};

std::string to_svg(const BarChart& chart);

}  // namespace nibble::report
