#include "report/bar_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kStep = 18;  // from bar to bar
constexpr double kBar = 12;   // thickness
constexpr double kMostLabel = 0.6 * kWidth;

// What has room, with the end of the name: that tells layers apart.
std::string shortened(const std::string& label) {
  std::string end = label;
  while (label_pixels(end) > kMostLabel) {
    end.erase(0, 1);
    while (!end.empty() && (static_cast<unsigned char>(end.front()) >> 6) == 2) {
      end.erase(0, 1);  // the rest of a character
    }
  }
  return end.size() == label.size() ? label : "…" + end;
}

std::string figure_of(double value) {
  const bool counts = value >= 1e4 && value < 1e12;
  return counts ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

}  // namespace

std::string to_svg(const BarChart& chart) {
  double label_width = 0;
  double figure_width = 0;
  double most = 0;
  for (const Bar& bar : chart.bars) {
    label_width = std::max(label_width, label_pixels(bar.label));
    figure_width = std::max(figure_width, label_pixels(figure_of(bar.value)));
    most = std::isfinite(bar.value) ? std::max(most, bar.value) : most;
  }
  const double left = std::min(label_width, kMostLabel + label_pixels("…")) + 8;
  Svg svg(kWidth, kStep * static_cast<double>(chart.bars.size()) + 4, chart.title);
  double top = 4;
  for (const Bar& bar : chart.bars) {
    const double share = most > 0 && bar.value > 0 ? std::min(1.0, bar.value / most) : 0.0;
    const double width = share * (kWidth - left - figure_width - 8);
    svg.text({left - 8, top + kBar - 2}, shortened(bar.label), Anchor::kEnd, "label");
    svg.rectangle({left, top}, width, kBar, "bar", fmt::format("{}: {:.6g}", bar.label, bar.value));
    svg.text({left + width + 6, top + kBar - 2}, figure_of(bar.value), Anchor::kStart, "label");
    top += kStep;
  }
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                     escape_html(chart.title), svg.finish());
}

}  // namespace nibble::report
