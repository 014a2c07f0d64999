#pragma once

#include <string>
#include <vector>

#include "report/axis.h"

namespace nibble::report {

struct LinePoint {
  double x = 0;
  double y = 0;
  double y_error = 0;  // half of the bar drawn through the point; 0 or NaN: none
};

/// How a line looks: the first of a pair is solid, the second dashed and in another colour.
enum class LineStyle { kFirst, kSecond };

struct Line {
  std::string label;  // at its right end, where there is room
  LineStyle style = LineStyle::kFirst;
  double strength = 1;  // 0: faint ... 1: full, to tell lines of one style apart
  std::vector<LinePoint> points;
};

/// Lines over one pair of axes. Points that are not finite, or not positive on a logarithmic axis,
/// are left out.
struct LinePlot {
  std::string title;
  std::string x_name;
  std::string y_name;
  Scaling x_scaling = Scaling::kLinear;
  Scaling y_scaling = Scaling::kLinear;
  std::vector<Line> lines;
};

/// The drawing, or a line that says that there is nothing to draw.
std::string to_svg(const LinePlot& plot);

}  // namespace nibble::report
