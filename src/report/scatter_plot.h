#pragma once

#include <string>
#include <vector>

#include "report/axis.h"

namespace nibble::report {

struct ScatterPoint {
  std::string label;
  double x = 0;
  double y = 0;
  double y_error = 0;  // half of the bar drawn through the point; 0 or NaN: none
};

/// Labelled points with the Pareto front (small x and small y are good) as a line. The axes hold
/// the whole error bars.
struct ScatterPlot {
  std::string title;
  std::string x_name;
  std::string y_name;
  Scaling x_scaling = Scaling::kLinear;
  Scaling y_scaling = Scaling::kLinear;
  std::vector<ScatterPoint> points;
};

/// The drawing, with lines below that name the points without room for a label, and those without
/// a place: not finite, or not positive (or not told from zero) where the axis is logarithmic.
std::string to_svg(const ScatterPlot& plot);

/// The drawing as an SVG file of its own, and these lines.
struct PlotFile {
  std::string svg;
  std::vector<std::string> notes;
};
PlotFile to_file(const ScatterPlot& plot);

}  // namespace nibble::report
