#include "report/histogram.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 300;
constexpr double kLeft = 20;
constexpr double kRight = 740;
constexpr double kTop = 20;
constexpr double kBottom = 245;

// Share of the full height.
double height_of(double count, double most, Scaling scaling) {
  if (most <= 0) {
    return 0;
  }
  return scaling == Scaling::kLogarithmic ? std::log1p(count) / std::log1p(most) : count / most;
}

}  // namespace

std::string to_svg(const Histogram& histogram) {
  Svg svg(kWidth, kHeight, histogram.title);
  const Axis x(Scaling::kLinear, histogram.low, histogram.high, kLeft, kRight);
  const double most = histogram.counts.empty()
                          ? 0.0
                          : *std::max_element(histogram.counts.begin(), histogram.counts.end());
  const double step =
      (histogram.high - histogram.low) / static_cast<double>(histogram.counts.size());
  double from = histogram.low;
  for (const double count : histogram.counts) {
    const double height = height_of(count, most, histogram.y_scaling) * (kBottom - kTop);
    svg.rectangle({x.at(from), kBottom - height}, x.at(from + step) - x.at(from), height, "bar",
                  fmt::format("{:.4g} to {:.4g}: {:.6g}", from, from + step, count));
    from += step;
  }
  for (const Mark& mark : histogram.marks) {
    svg.line({x.at(mark.value), kTop - 8}, {x.at(mark.value), kBottom}, "mark");
    svg.text({x.at(mark.value), kTop - 10}, mark.label, Anchor::kMiddle, "tick");
  }
  for (const Tick& tick : x.ticks()) {
    svg.line({x.at(tick.value), kBottom}, {x.at(tick.value), kBottom + 5}, "axis");
    svg.text({x.at(tick.value), kBottom + 18}, tick.label, Anchor::kMiddle, "tick");
  }
  svg.line({kLeft, kBottom}, {kRight, kBottom}, "axis");
  svg.text({kRight, kBottom + 40}, histogram.x_name, Anchor::kEnd);
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                     escape_html(histogram.title), svg.finish());
}

}  // namespace nibble::report
