#include "report/scatter_plot.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "report/html.h"
#include "report/label_layout.h"
#include "report/pareto.h"
#include "report/svg.h"

namespace nibble::report {
namespace {

constexpr double kWidth = 760;
constexpr double kTop = 40;
constexpr double kRight = 740;
constexpr double kPlotHeight = 345;
constexpr double kMoreHeight = 10;    // for each point of a crowd
constexpr std::size_t kNoCrowd = 12;  // points
constexpr double kBelow = 55;         // ticks and the name of the axis
constexpr double kRadius = 4.5;       // of a point
constexpr double kCap = 4;            // half of the line at the end of an error bar
constexpr double kLongestBar = 10;    // times, downwards on a logarithmic axis
constexpr double kLetter = 8;         // width of the widest digit

// The ends of a point's error bar in values of y.
struct ErrorBar {
  double low = 0;
  double high = 0;
};

ErrorBar bar_of(const ScatterPoint& point) {
  const bool has_error = point.y_error > 0 && std::isfinite(point.y_error);
  const double half = has_error ? point.y_error : 0;
  return {point.y - half, point.y + half};
}

// A logarithmic axis has no zero, and a bar that comes near it would press all else together.
bool has_place(const ScatterPlot& plot, const ScatterPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) &&
         (plot.x_scaling == Scaling::kLinear || point.x > 0) &&
         (plot.y_scaling == Scaling::kLinear ||
          (point.y > 0 && bar_of(point).low >= point.y / kLongestBar));
}

class Drawing {
 public:
  Drawing(const ScatterPlot& plot, const std::vector<ScatterPoint>& points)
      : plot_(plot),
        points_(points),
        bars_(bars_of(points)),
        bottom_(kTop + kPlotHeight +
                kMoreHeight * static_cast<double>(std::max(points.size(), kNoCrowd) - kNoCrowd)),
        y_(y_axis()),
        left_(left_margin()),
        x_(x_axis()),
        svg_(kWidth, bottom_ + kBelow, plot.title) {}

  // Names the points without room for a label in `unlabelled`.
  std::string draw(std::vector<std::string>& unlabelled) {
    draw_axes();
    std::vector<Place> places;
    std::vector<Costs> costs;
    for (const ScatterPoint& point : points_) {
      places.push_back({x_.at(point.x), y_.at(point.y)});
      costs.push_back({point.x, point.y});
    }
    std::vector<Place> front;
    for (const std::size_t i : pareto_front(costs)) {
      front.push_back(places[i]);
    }
    svg_.path(front, "front");
    std::vector<Box> drawn_bars;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      draw_bar(bars_[i], places[i], drawn_bars);
    }
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const ScatterPoint& point = points_[i];
      svg_.circle(places[i], kRadius, "point",
                  fmt::format("{}: {:.4g}, {:.4g}", point.label, point.x, point.y));
    }
    draw_labels(places, drawn_bars, unlabelled);
    return svg_.finish();
  }

 private:
  static std::vector<ErrorBar> bars_of(const std::vector<ScatterPoint>& points) {
    std::vector<ErrorBar> bars;
    std::transform(points.begin(), points.end(), std::back_inserter(bars), bar_of);
    return bars;
  }

  Axis y_axis() const {
    double low = bars_.front().low;
    double high = bars_.front().high;
    for (const ErrorBar& bar : bars_) {
      low = std::min(low, bar.low);
      high = std::max(high, bar.high);
    }
    return Axis(plot_.y_scaling, low, high, bottom_, kTop);
  }

  double left_margin() const {
    std::size_t longest = 0;
    for (const Tick& tick : y_.ticks()) {
      longest = std::max(longest, tick.label.size());
    }
    return std::max(40.0, 16 + kLetter * static_cast<double>(longest));
  }

  Axis x_axis() const {
    const auto by_x = [](const ScatterPoint& a, const ScatterPoint& b) { return a.x < b.x; };
    const auto [low, high] = std::minmax_element(points_.begin(), points_.end(), by_x);
    return Axis(plot_.x_scaling, low->x, high->x, left_, kRight);
  }

  void draw_axes() {
    for (const Tick& tick : x_.ticks()) {
      svg_.line({x_.at(tick.value), kTop}, {x_.at(tick.value), bottom_}, "grid");
      svg_.text({x_.at(tick.value), bottom_ + 18}, tick.label, Anchor::kMiddle, "tick");
    }
    for (const Tick& tick : y_.ticks()) {
      svg_.line({left_, y_.at(tick.value)}, {kRight, y_.at(tick.value)}, "grid");
      svg_.text({left_ - 8, y_.at(tick.value) + 4}, tick.label, Anchor::kEnd, "tick");
    }
    svg_.line({left_, bottom_}, {kRight, bottom_}, "axis");
    svg_.line({left_, kTop}, {left_, bottom_}, "axis");
    svg_.text({kRight, bottom_ + 40}, plot_.x_name, Anchor::kEnd);
    svg_.text({10, kTop - 16}, plot_.y_name, Anchor::kStart);
  }

  // The box that it fills goes to `drawn`.
  void draw_bar(const ErrorBar& bar, Place point, std::vector<Box>& drawn) {
    if (bar.high <= bar.low) {
      return;
    }
    const double top = y_.at(bar.high);
    const double bottom = y_.at(bar.low);
    svg_.line({point.x, top}, {point.x, bottom}, "error");
    for (const double end : {top, bottom}) {
      svg_.line({point.x - kCap, end}, {point.x + kCap, end}, "error");
    }
    drawn.push_back({point.x - kCap, top, point.x + kCap, bottom});
  }

  void draw_labels(const std::vector<Place>& places, const std::vector<Box>& drawn_bars,
                   std::vector<std::string>& unlabelled) {
    std::vector<std::string> names;
    for (const ScatterPoint& point : points_) {
      names.push_back(point.label);
    }
    std::vector<bool> labelled(points_.size(), false);
    for (const PlacedLabel& label :
         lay_out_labels(places, names, drawn_bars, {left_, kTop, kRight, bottom_}, kRadius)) {
      labelled[label.point] = true;
      if (label.leader) {
        svg_.line(places[label.point], label.leader_end, "leader");
      }
      svg_.text({label.box.left, label.box.bottom - 3}, names[label.point], Anchor::kStart,
                "label");
    }
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!labelled[i]) {
        unlabelled.push_back(
            fmt::format("{} ({:.4g}, {:.4g})", names[i], points_[i].x, points_[i].y));
      }
    }
  }

  const ScatterPlot& plot_;
  const std::vector<ScatterPoint>& points_;
  std::vector<ErrorBar> bars_;
  double bottom_;
  Axis y_;
  double left_;
  Axis x_;
  Svg svg_;
};

struct Drawn {
  std::string svg;  // empty without points
  std::vector<std::string> notes;
};

void note(std::string_view what, const std::vector<std::string>& names,
          std::vector<std::string>& notes) {
  if (!names.empty()) {
    notes.push_back(fmt::format("{}: {}.", what, fmt::join(names, ", ")));
  }
}

Drawn draw(const ScatterPlot& plot) {
  std::vector<ScatterPoint> points;
  std::vector<std::string> left_out;
  for (const ScatterPoint& point : plot.points) {
    if (has_place(plot, point)) {
      points.push_back(point);
    } else {
      const std::string error = point.y_error > 0 ? fmt::format(" ± {:.3g}", point.y_error) : "";
      left_out.push_back(fmt::format("{} ({:.3g}{})", point.label, point.y, error));
    }
  }
  std::vector<std::string> unlabelled;
  Drawn drawn;
  drawn.svg = points.empty() ? "" : Drawing(plot, points).draw(unlabelled);
  note("Without room for a label", unlabelled, drawn.notes);
  note("Without a place on the axes", left_out, drawn.notes);
  return drawn;
}

}  // namespace

std::string to_svg(const ScatterPlot& plot) {
  const Drawn drawn = draw(plot);
  std::string html =
      fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}", escape_html(plot.title), drawn.svg);
  for (const std::string& line : drawn.notes) {
    html += fmt::format("<p class=\"note\">{}</p>\n", escape_html(line));
  }
  return html + "</figure>\n";
}

PlotFile to_file(const ScatterPlot& plot) {
  Drawn drawn = draw(plot);
  if (drawn.svg.empty()) {
    drawn.svg = Svg(600, 20, plot.title).finish();
  }
  return {svg_file(drawn.svg), std::move(drawn.notes)};
}

}  // namespace nibble::report
