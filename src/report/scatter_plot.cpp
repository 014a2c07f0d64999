#include "report/scatter_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/pareto.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 440;
constexpr double kLeft = 70;
constexpr double kRight = 740;
constexpr double kTop = 40;
constexpr double kBottom = 385;
constexpr double kRadius = 4.5;
constexpr double kLetter = 12;  // height of a text

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

Box around(Place place, double reach) {
  return {place.x - reach, place.y - reach, place.x + reach, place.y + reach};
}

// Puts labels where they hide no point and no other label: beside their point, or farther away with
// a line to it.
class Labels {
 public:
  explicit Labels(const std::vector<Place>& points) {
    for (const Place& point : points) {
      taken_.push_back(around(point, kRadius));
    }
  }

  // Without a free place a label stays with the point's hover text.
  void draw(Svg& svg, Place point, const std::string& label) {
    const double width = text_pixels(label);
    for (const double distance : {0.0, 16.0, 32.0, 48.0, 72.0, 96.0}) {
      for (const Place& direction : kDirections) {
        const Box box = beside(point, direction, kRadius + 3 + distance, width);
        if (!is_free(box)) {
          continue;
        }
        taken_.push_back(box);
        if (distance > 0) {
          svg.line(point, nearest(box, point), "leader");
        }
        svg.text({box.left, box.bottom - 2}, label, Anchor::kStart);
        return;
      }
    }
  }

 private:
  static constexpr std::array<Place, 12> kDirections = {
      Place{1, 0},       Place{-1, 0},       Place{0.8, -0.6}, Place{-0.8, -0.6},
      Place{0.8, 0.6},   Place{-0.8, 0.6},   Place{0, -1},     Place{0, 1},
      Place{0.45, -0.9}, Place{-0.45, -0.9}, Place{0.45, 0.9}, Place{-0.45, 0.9}};

  // A box of a label that begins (or ends, or is centred) `distance` from the point.
  static Box beside(Place point, Place direction, double distance, double width) {
    const double x = point.x + direction.x * distance;
    const double y = point.y + direction.y * (distance + kLetter / 2);
    const double left = direction.x > 0 ? x : direction.x < 0 ? x - width : x - width / 2;
    return {left, y - kLetter / 2, left + width, y + kLetter / 2};
  }

  static Place nearest(const Box& box, Place point) {
    return {std::clamp(point.x, box.left, box.right), std::clamp(point.y, box.top, box.bottom)};
  }

  bool is_free(const Box& box) const {
    return box.left > kLeft && box.right < kRight && box.top > kTop && box.bottom < kBottom &&
           std::none_of(taken_.begin(), taken_.end(),
                        [&](const Box& other) { return other.meets(box); });
  }

  std::vector<Box> taken_;
};

bool has_place(const ScatterPlot& plot, const ScatterPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) &&
         (plot.x_scaling == Scaling::kLinear || point.x > 0) &&
         (plot.y_scaling == Scaling::kLinear || point.y > 0);
}

void draw_axes(Svg& svg, const ScatterPlot& plot, const Axis& x, const Axis& y) {
  for (const Tick& tick : x.ticks()) {
    svg.line({x.at(tick.value), kTop}, {x.at(tick.value), kBottom}, "grid");
    svg.text({x.at(tick.value), kBottom + 18}, tick.label, Anchor::kMiddle, "tick");
  }
  for (const Tick& tick : y.ticks()) {
    svg.line({kLeft, y.at(tick.value)}, {kRight, y.at(tick.value)}, "grid");
    svg.text({kLeft - 8, y.at(tick.value) + 4}, tick.label, Anchor::kEnd, "tick");
  }
  svg.line({kLeft, kBottom}, {kRight, kBottom}, "axis");
  svg.line({kLeft, kTop}, {kLeft, kBottom}, "axis");
  svg.text({kRight, kBottom + 40}, plot.x_name, Anchor::kEnd);
  svg.text({10, kTop - 16}, plot.y_name, Anchor::kStart);
}

void draw_error(Svg& svg, const ScatterPoint& point, const Axis& x, const Axis& y) {
  if (!(point.y_error > 0) || !std::isfinite(point.y_error)) {
    return;
  }
  const double low = std::max(point.y - point.y_error, y.low());
  const double high = std::min(point.y + point.y_error, y.high());
  svg.line({x.at(point.x), y.at(low)}, {x.at(point.x), y.at(high)}, "error");
}

std::string draw(const ScatterPlot& plot, const std::vector<ScatterPoint>& points) {
  const auto by_x = [](const ScatterPoint& a, const ScatterPoint& b) { return a.x < b.x; };
  const auto by_y = [](const ScatterPoint& a, const ScatterPoint& b) { return a.y < b.y; };
  const auto [left, right] = std::minmax_element(points.begin(), points.end(), by_x);
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_y);
  const Axis x(plot.x_scaling, left->x, right->x, kLeft, kRight);
  const Axis y(plot.y_scaling, low->y, high->y, kBottom, kTop);
  Svg svg(kWidth, kHeight, plot.title);
  draw_axes(svg, plot, x, y);
  std::vector<Place> places;
  std::vector<Costs> costs;
  for (const ScatterPoint& point : points) {
    places.push_back({x.at(point.x), y.at(point.y)});
    costs.push_back({point.x, point.y});
  }
  std::vector<Place> front;
  for (const std::size_t i : pareto_front(costs)) {
    front.push_back(places[i]);
  }
  svg.path(front, "front");
  Labels labels(places);
  for (std::size_t i = 0; i < points.size(); ++i) {
    draw_error(svg, points[i], x, y);
    svg.circle(places[i], kRadius, "point",
               fmt::format("{}: {:.4g}, {:.4g}", points[i].label, points[i].x, points[i].y));
    labels.draw(svg, places[i], points[i].label);
  }
  return svg.finish();
}

}  // namespace

std::string to_svg(const ScatterPlot& plot) {
  std::vector<ScatterPoint> points;
  std::string left_out;
  for (const ScatterPoint& point : plot.points) {
    if (has_place(plot, point)) {
      points.push_back(point);
    } else {
      left_out += fmt::format("{}{} ({:.3g})", left_out.empty() ? "" : ", ", point.label, point.y);
    }
  }
  std::string html =
      fmt::format("<figure>\n<figcaption>{}</figcaption>\n", escape_html(plot.title));
  html += points.empty() ? "" : draw(plot, points);
  if (!left_out.empty()) {
    html += fmt::format("<p class=\"note\">Without a place on the axes: {}.</p>\n",
                        escape_html(left_out));
  }
  return html + "</figure>\n";
}

}  // namespace nibble::report
