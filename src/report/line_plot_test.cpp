#include "report/line_plot.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include <gtest/gtest.h>

#include "report/balanced_tags_for_tests.h"

namespace nibble::report {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

LinePlot small_plot(Scaling y_scaling) {
  return {"Loss",
          "position",
          "nats",
          Scaling::kLogarithmic,
          y_scaling,
          {{"model", LineStyle::kFirst, 1, {{1, 4, 0.5}, {10, 2, 0}, {100, 1, 0}}},
           {"quantized", LineStyle::kSecond, 0.5, {{1, 4, 0}, {10, 3, 0}, {100, 2, 0}}}}};
}

// The y of the n-th circle.
double height(const std::string& svg, std::size_t n) {
  std::size_t at = svg.find("cy=\"");
  while (n-- > 0) {
    at = svg.find("cy=\"", at + 1);
  }
  return std::stod(svg.substr(at + 4));
}

TEST(LinePlot, DrawsEveryLineWithItsLabel) {
  const std::string svg = to_svg(small_plot(Scaling::kLinear));
  EXPECT_EQ(TagChecker::fault_of(svg), "");
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 6u);
  EXPECT_EQ(count(svg, "class=\"curve first strength4\""), 1u);
  EXPECT_EQ(count(svg, "class=\"curve second strength2\""), 1u);
  EXPECT_EQ(count(svg, "class=\"spread"), 3u);  // one bar with its ends
  EXPECT_EQ(count(svg, ">model<"), 1u);
  EXPECT_EQ(count(svg, ">quantized<"), 1u);
  EXPECT_NEAR(height(svg, 0) - height(svg, 1), 2 * (height(svg, 1) - height(svg, 2)), 0.3);
}

TEST(LinePlot, LeavesOutWhatHasNoPlace) {
  LinePlot plot = small_plot(Scaling::kLogarithmic);
  plot.lines[0].points.push_back({200, -1, 0});
  plot.lines[0].points.push_back({0, 1, 0});
  plot.lines[1].points.push_back({300, std::numeric_limits<double>::infinity(), 0});
  plot.lines[1].points.push_back({300, std::nan(""), 0});
  plot.lines[1].points.push_back({100, 2, 9});  // a bar down to below zero
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, "<circle"), 7u);
  EXPECT_EQ(count(svg, "class=\"spread"), 3u);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NEAR(height(svg, 0) - height(svg, 1), height(svg, 1) - height(svg, 2), 0.3);
}

TEST(LinePlot, LabelsDoNotTouch) {
  LinePlot plot = small_plot(Scaling::kLinear);
  plot.lines[1].points = plot.lines[0].points;
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, ">model</text>"), 1u);
  EXPECT_EQ(count(svg, ">quantized</text>"), 0u);
}

TEST(LinePlot, WordsAreEscaped) {
  LinePlot plot = small_plot(Scaling::kLinear);
  plot.title = plot.x_name = plot.y_name = "\"><script>alert('x' & 1)</script>\x01";
  plot.lines[0].label = "<b>\x01&";
  const std::string svg = to_svg(plot);
  EXPECT_EQ(TagChecker::fault_of(svg), "");
  EXPECT_EQ(count(svg, "<script"), 0u);
  EXPECT_EQ(count(svg, ">&lt;b&gt;\xEF\xBF\xBD&amp;</text>"), 1u);
}

TEST(LinePlot, OfNothing) {
  const std::string svg = to_svg(LinePlot{"t", "x", "y", Scaling::kLinear, Scaling::kLinear, {}});
  EXPECT_EQ(TagChecker::fault_of(svg), "");
  EXPECT_NE(svg.find("nothing to draw"), std::string::npos);
}

}  // namespace
}  // namespace nibble::report
