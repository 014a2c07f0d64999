#include "report/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 330;
constexpr double kLeft = 20;
constexpr double kRight = 740;
constexpr double kTop = 50;
constexpr double kBottom = 275;
constexpr std::size_t kMarkLines = 3;
constexpr double kMarkLine = 14;  // height

// Share of the full height.
double height_of(double count, double most, Scaling scaling) {
  if (most <= 0) {
    return 0;
  }
  return scaling == Scaling::kLogarithmic ? std::log1p(count) / std::log1p(most) : count / most;
}

// A label that would touch the one before it stands a line higher.
void draw_marks(Svg& svg, std::vector<Mark> marks, const Axis& x) {
  std::sort(marks.begin(), marks.end(),
            [](const Mark& a, const Mark& b) { return a.value < b.value; });
  std::array<double, kMarkLines> ends{};  // of the last label of each line
  ends.fill(-1);
  for (const Mark& mark : marks) {
    const double half = label_pixels(mark.label) / 2;
    const double begin = x.at(mark.value) - half;
    const auto line =
        std::find_if(ends.begin(), ends.end(), [&](double end) { return end < begin; });
    const double top =
        kTop - kMarkLine * static_cast<double>(line == ends.end() ? 0 : line - ends.begin());
    svg.line({x.at(mark.value), top - 8}, {x.at(mark.value), kBottom}, "mark");
    if (line != ends.end()) {
      *line = x.at(mark.value) + half;
      svg.text({x.at(mark.value), top - 10}, mark.label, Anchor::kMiddle, "label");
    }
  }
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
  draw_marks(svg, histogram.marks, x);
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
