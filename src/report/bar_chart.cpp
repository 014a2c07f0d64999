#include "report/bar_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kStep = 18;     // from bar to bar
constexpr double kBar = 12;      // thickness
constexpr double kFigures = 70;  // room for the value behind a bar

}  // namespace

std::string to_svg(const BarChart& chart) {
  double label_width = 0;
  double most = 0;
  for (const Bar& bar : chart.bars) {
    label_width = std::max(label_width, text_pixels(bar.label));
    most = std::isfinite(bar.value) ? std::max(most, bar.value) : most;
  }
  const double left = std::min(label_width + 8, 0.6 * kWidth);
  Svg svg(kWidth, kStep * static_cast<double>(chart.bars.size()) + 4, chart.title);
  double top = 4;
  for (const Bar& bar : chart.bars) {
    const double share = most > 0 && bar.value > 0 ? std::min(1.0, bar.value / most) : 0.0;
    const double width = share * (kWidth - left - kFigures);
    svg.text({left - 8, top + kBar - 2}, bar.label, Anchor::kEnd);
    svg.rectangle({left, top}, width, kBar, "bar", fmt::format("{}: {:.6g}", bar.label, bar.value));
    svg.text({left + width + 6, top + kBar - 2}, fmt::format("{:.4g}", bar.value), Anchor::kStart,
             "tick");
    top += kStep;
  }
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                     escape_html(chart.title), svg.finish());
}

}  // namespace nibble::report
