#include "report/line_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 380;
constexpr double kTop = 40;
constexpr double kBottom = 325;
constexpr double kRight = 740;
constexpr double kMostLabel = 200;  // width
constexpr double kLabelHeight = 13;
constexpr double kLetter = 8;  // width of the widest digit
constexpr double kDot = 2.5;   // radius
constexpr double kCap = 3;     // half of the line at the end of an error bar
constexpr double kStrengths = 4;

struct Bounds {
  double low = INFINITY;
  double high = -INFINITY;
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

bool fits(Scaling scaling, double value) {
  return std::isfinite(value) && (scaling == Scaling::kLinear || value > 0);
}

// The lines with the points that have a place, without those that have none.
std::vector<Line> drawable(const LinePlot& plot) {
  std::vector<Line> lines;
  for (const Line& line : plot.lines) {
    Line kept{line.label, line.style, line.strength, {}};
    std::copy_if(line.points.begin(), line.points.end(), std::back_inserter(kept.points),
                 [&](const LinePoint& point) {
                   return fits(plot.x_scaling, point.x) && fits(plot.y_scaling, point.y);
                 });
    if (!kept.points.empty()) {
      lines.push_back(std::move(kept));
    }
  }
  return lines;
}

class Drawing {
 public:
  Drawing(const LinePlot& plot, const std::vector<Line>& lines)
      : plot_(plot),
        lines_(lines),
        y_(y_axis()),
        left_(left_margin()),
        right_(kRight - label_room()),
        x_(x_axis()),
        svg_(kWidth, kHeight, plot.title) {}

  std::string draw() {
    draw_axes();
    for (const Line& line : lines_) {
      draw_line(line);
    }
    draw_labels();
    return svg_.finish();
  }

 private:
  bool has_bar(const LinePoint& point) const {
    return point.y_error > 0 && std::isfinite(point.y_error) &&
           fits(plot_.y_scaling, point.y - point.y_error);
  }

  Axis y_axis() const {
    Bounds bounds;
    for (const Line& line : lines_) {
      for (const LinePoint& point : line.points) {
        const double half = has_bar(point) ? point.y_error : 0;
        bounds.add(point.y - half);
        bounds.add(point.y + half);
      }
    }
    return Axis(plot_.y_scaling, bounds.low, bounds.high, kBottom, kTop);
  }

  double left_margin() const {
    std::size_t longest = 0;
    for (const Tick& tick : y_.ticks()) {
      longest = std::max(longest, tick.label.size());
    }
    return std::max(40.0, 16 + kLetter * static_cast<double>(longest));
  }

  double label_room() const {
    double room = 0;
    for (const Line& line : lines_) {
      room = std::max(room, label_pixels(line.label));
    }
    return std::min(kMostLabel, room) + 8;
  }

  Axis x_axis() const {
    Bounds bounds;
    for (const Line& line : lines_) {
      for (const LinePoint& point : line.points) {
        bounds.add(point.x);
      }
    }
    return Axis(plot_.x_scaling, bounds.low, bounds.high, left_, right_);
  }

  void draw_axes() {
    for (const Tick& tick : x_.ticks()) {
      svg_.line({x_.at(tick.value), kTop}, {x_.at(tick.value), kBottom}, "grid");
      svg_.text({x_.at(tick.value), kBottom + 18}, tick.label, Anchor::kMiddle, "tick");
    }
    for (const Tick& tick : y_.ticks()) {
      svg_.line({left_, y_.at(tick.value)}, {right_, y_.at(tick.value)}, "grid");
      svg_.text({left_ - 8, y_.at(tick.value) + 4}, tick.label, Anchor::kEnd, "tick");
    }
    svg_.line({left_, kBottom}, {right_, kBottom}, "axis");
    svg_.line({left_, kTop}, {left_, kBottom}, "axis");
    svg_.text({right_, kBottom + 40}, plot_.x_name, Anchor::kEnd);
    svg_.text({10, kTop - 16}, plot_.y_name, Anchor::kStart);
  }

  static std::string style_of(const Line& line, const char* element) {
    const double strength = std::clamp(line.strength, 0.0, 1.0);
    return fmt::format("{} {} strength{:.0f}", element,
                       line.style == LineStyle::kFirst ? "first" : "second", kStrengths * strength);
  }

  void draw_line(const Line& line) {
    std::vector<Place> places;
    for (const LinePoint& point : line.points) {
      places.push_back({x_.at(point.x), y_.at(point.y)});
      if (has_bar(point)) {
        draw_bar(places.back().x, y_.at(point.y - point.y_error), y_.at(point.y + point.y_error),
                 style_of(line, "spread"));
      }
    }
    svg_.path(places, style_of(line, "curve"));
    for (std::size_t i = 0; i < places.size(); ++i) {
      svg_.circle(
          places[i], kDot, style_of(line, "dot"),
          fmt::format("{}: {:.4g}, {:.4g}", line.label, line.points[i].x, line.points[i].y));
    }
  }

  void draw_bar(double x, double low, double high, const std::string& style) {
    svg_.line({x, low}, {x, high}, style);
    for (const double end : {low, high}) {
      svg_.line({x - kCap, end}, {x + kCap, end}, style);
    }
  }

  // From above to below; a label that would touch the one above it is left out.
  void draw_labels() {
    std::vector<std::pair<double, const Line*>> ends;
    for (const Line& line : lines_) {
      ends.emplace_back(y_.at(line.points.back().y), &line);
    }
    std::stable_sort(ends.begin(), ends.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    double free = 0;
    for (const auto& [y, line] : ends) {
      if (!line->label.empty() && y >= free && label_pixels(line->label) <= kMostLabel) {
        svg_.text({right_ + 6, y + 4}, line->label, Anchor::kStart, "label");
        free = y + kLabelHeight;
      }
    }
  }

  const LinePlot& plot_;
  const std::vector<Line>& lines_;
  Axis y_;
  double left_;
  double right_;
  Axis x_;
  Svg svg_;
};

}  // namespace

std::string to_svg(const LinePlot& plot) {
  const std::vector<Line> lines = drawable(plot);
  const std::string drawing = lines.empty() ? "<p class=\"note\">There is nothing to draw.</p>\n"
                                            : Drawing(plot, lines).draw();
  return fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                     escape_html(plot.title), drawing);
}

}  // namespace nibble::report
