#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "report/balanced_tags_for_tests.h"
#include "report/bar_chart.h"
#include "report/histogram.h"
#include "report/scatter_plot.h"

namespace nibble::report {
namespace {

const std::string kHostile = "\"><script>alert('x' & 1)</script>\x01";

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// The pixel positions of the first polyline.
std::string front_of(const std::string& svg) {
  const std::size_t begin = svg.find("points=\"") + 8;
  return svg.substr(begin, svg.find('"', begin) - begin);
}

constexpr std::size_t kLinesOfABar = 3;  // the bar and its ends

// The lowest and the highest y of all lines of error bars.
std::pair<double, double> bars_of(const std::string& svg) {
  std::pair<double, double> ends = {1e9, -1e9};
  for (std::size_t at = svg.find("class=\"error\""); at != std::string::npos;
       at = svg.find("class=\"error\"", at + 1)) {
    for (const char* name : {"y1=\"", "y2=\""}) {
      const double y = std::stod(svg.substr(svg.rfind(name, at) + 4));
      ends = {std::min(ends.first, y), std::max(ends.second, y)};
    }
  }
  return ends;
}

ScatterPlot small_plot(Scaling scaling) {
  return {"KL",
          "bits per weight",
          "KL",
          Scaling::kLinear,
          scaling,
          {{"original", 16, 0, 0},
           {"w8", 8, 0.01, 0.001},
           {"w4", 4, 1, 0.1},
           {"worse", 5, 2, std::numeric_limits<double>::quiet_NaN()}}};
}

TEST(ScatterPlot, DrawsEveryPointWithItsLabel) {
  const std::string svg = to_svg(small_plot(Scaling::kLinear));
  EXPECT_EQ(TagChecker::fault_of(svg), "");
  EXPECT_EQ(count(svg, "<circle"), 4u);
  for (const char* label : {">original<", ">w8<", ">w4<", ">worse<"}) {
    EXPECT_EQ(count(svg, label), 1u) << label;
  }
  EXPECT_EQ(count(svg, "class=\"error\""), 2 * kLinesOfABar);
  EXPECT_EQ(count(svg, "Without a place"), 0u);
  EXPECT_EQ(count(front_of(svg), ","), 3u);  // without "worse"
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(ScatterPlot, IsAFileOfItsOwnWithItsStyle) {
  const PlotFile file = to_file(small_plot(Scaling::kLogarithmic));
  EXPECT_EQ(TagChecker::fault_of(file.svg), "");
  EXPECT_EQ(file.svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox="), 0u);
  EXPECT_EQ(count(file.svg, "<style>"), 1u);
  EXPECT_EQ(count(file.svg, "svg .point"), 1u);
  EXPECT_EQ(count(file.svg, "<figure"), 0u);
  EXPECT_EQ(count(file.svg, "<circle"), 3u);
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_EQ(file.notes[0], "Without a place on the axes: original (0).");

  const PlotFile empty = to_file({kHostile, "x", "y", Scaling::kLinear, Scaling::kLinear, {}});
  EXPECT_EQ(TagChecker::fault_of(empty.svg), "");
  EXPECT_EQ(count(empty.svg, "<script"), 0u);
}

TEST(ScatterPlot, ErrorBarsAreWhole) {
  for (const Scaling scaling : {Scaling::kLinear, Scaling::kLogarithmic}) {
    // The first bar is longer than the distance of the points.
    const ScatterPlot plot{
        "t", "x", "y", Scaling::kLinear, scaling, {{"a", 1, 3, 2}, {"b", 2, 4, 0}}};
    const std::string svg = to_svg(plot);
    double bottom = 0;
    double a = 0;
    ASSERT_EQ(std::sscanf(svg.c_str() + svg.find("cy=\""), "cy=\"%lf", &a), 1);
    ASSERT_EQ(std::sscanf(svg.c_str() + svg.find("viewBox"), "viewBox=\"0 0 760 %lf", &bottom), 1);
    const auto [high, low] = bars_of(svg);
    EXPECT_GT(high, 40);
    EXPECT_LT(low, bottom - 55);
    EXPECT_EQ(count(svg, "class=\"error\""), kLinesOfABar);
    if (scaling == Scaling::kLinear) {
      EXPECT_NEAR(low - a, a - high, 0.21);
    } else {
      EXPECT_NEAR((low - a) / (a - high), std::log(3) / std::log(5.0 / 3), 0.01);
    }
  }
}

TEST(ScatterPlot, WhatIsNotToldFromZeroHasNoPlaceOnALogarithmicAxis) {
  const ScatterPlot plot{"t",
                         "x",
                         "y",
                         Scaling::kLinear,
                         Scaling::kLogarithmic,
                         {{"a", 1, 3e-10, 5e-10}, {"b", 2, 4, 0}, {"c", 3, 2, 1.7}}};
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_EQ(count(svg, "Without a place on the axes: a (3e-10 ± 5e-10)."), 1u);
  EXPECT_EQ(count(svg, "e-"), 2u);  // in that line: no tick down there
}

TEST(ScatterPlot, NamesPointsWithoutRoomForALabel) {
  ScatterPlot plot;
  for (int i = 0; i < 100; ++i) {
    plot.points.push_back(
        {"a-recipe-with-a-name-too-long-for-many-of-them-" + std::to_string(i), 4, 1, 0});
  }
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, "Without room for a label: "), 1u);
  for (int i = 0; i < 100; ++i) {
    const std::string name = "of-them-" + std::to_string(i);
    EXPECT_EQ(count(svg, name + "<") + count(svg, name + " (4, 1)"), 1u) << name;
  }
}

TEST(ScatterPlot, LabelsOfACrowdKeepTheirNames) {
  ScatterPlot plot;
  for (int i = 0; i < 12; ++i) {
    plot.points.push_back({"recipe-" + std::to_string(100 + i), 4 + 0.001 * i, 1 + 0.001 * i, 0});
  }
  plot.points.push_back({"far", 16, 9, 0});
  const std::string svg = to_svg(plot);
  EXPECT_EQ(count(svg, ">recipe-1"), 24u);  // a label and a hover text each
  EXPECT_GT(count(svg, "class=\"leader\""), 0u);
}

TEST(ScatterPlot, NamesPointsThatALogarithmicAxisCannotShow) {
  const std::string svg = to_svg(small_plot(Scaling::kLogarithmic));
  EXPECT_EQ(count(svg, "<circle"), 3u);
  EXPECT_EQ(count(svg, "Without a place on the axes: original (0)."), 1u);
  EXPECT_EQ(count(front_of(svg), ","), 2u);
}

TEST(ScatterPlot, LogarithmicPlacesAreEquallyFarForEqualRatios) {
  const ScatterPlot plot{"t",
                         "x",
                         "y",
                         Scaling::kLinear,
                         Scaling::kLogarithmic,
                         {{"a", 1, 100, 0}, {"b", 2, 1, 0}, {"c", 3, 0.01, 0}}};
  double x[3] = {};
  double y[3] = {};
  ASSERT_EQ(std::sscanf(front_of(to_svg(plot)).c_str(), "%lf,%lf %lf,%lf %lf,%lf", &x[0], &y[0],
                        &x[1], &y[1], &x[2], &y[2]),
            6);
  EXPECT_LT(y[0], y[1]);
  EXPECT_NEAR(y[1] - y[0], y[2] - y[1], 0.21);  // written with one decimal
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.21);
}

TEST(Charts, SurviveHostileNamesAndValues) {
  const double infinite = std::numeric_limits<double>::infinity();
  for (const Scaling scaling : {Scaling::kLinear, Scaling::kLogarithmic}) {
    const ScatterPlot plot{kHostile, kHostile, kHostile,
                           scaling,  scaling,  {{kHostile, 4, 1, 0}, {kHostile, 4, infinite, 0}}};
    EXPECT_EQ(TagChecker::fault_of(to_svg(plot)), "");
  }
  EXPECT_EQ(TagChecker::fault_of(to_svg(ScatterPlot{})), "");
  EXPECT_EQ(TagChecker::fault_of(to_svg(BarChart{kHostile, {{kHostile, 1}, {"b", infinite}}})), "");
  EXPECT_EQ(TagChecker::fault_of(to_svg(BarChart{})), "");
  EXPECT_EQ(TagChecker::fault_of(to_svg(
                Histogram{kHostile, kHostile, -1, 1, Scaling::kLinear, {1, 2}, {{0.5, kHostile}}})),
            "");
  EXPECT_EQ(to_svg(BarChart{kHostile, {{kHostile, 1}}}).find("<script"), std::string::npos);
}

// The width of each <rect>, in order.
std::vector<double> numbers_behind(const std::string& svg, const std::string& word) {
  std::vector<double> numbers;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos;
       at = svg.find("<rect", at + 1)) {
    numbers.push_back(std::stod(svg.substr(svg.find(word, at) + word.size())));
  }
  return numbers;
}

TEST(BarChart, WidthsAreInProportion) {
  const auto widths =
      numbers_behind(to_svg(BarChart{"t", {{"a", 4}, {"b", 1}, {"c", 0}}}), " width=\"");
  ASSERT_EQ(widths.size(), 3u);
  EXPECT_NEAR(widths[0], 4 * widths[1], 0.3);
  EXPECT_GT(widths[1], 100);
  EXPECT_EQ(widths[2], 0);
}

TEST(Histogram, LogarithmicHeightsShowTails) {
  const auto heights = numbers_behind(
      to_svg(Histogram{"t", "x", 0, 3, Scaling::kLogarithmic, {999, 9, 0}, {}}), " height=\"");
  ASSERT_EQ(heights.size(), 3u);
  EXPECT_NEAR(heights[0], 3 * heights[1], 0.3);  // log 1000 = 3 log 10
  EXPECT_GT(heights[1], 50);
  EXPECT_EQ(heights[2], 0);
}

TEST(Histogram, MarksThatLieCloseHaveTheirLabelsOnLinesOfTheirOwn) {
  const Histogram close{"t", "x", 0, 1, Scaling::kLinear, {1}, {{0.5, "12"}, {0.501, "13"}}};
  const std::string svg = to_svg(close);
  const auto y_of = [&](const std::string& label) {
    const std::size_t begin = svg.rfind(" y=\"", svg.find(">" + label + "<")) + 4;
    return std::stod(svg.substr(begin));
  };
  EXPECT_GE(std::abs(y_of("12") - y_of("13")), 12);
}

TEST(BarChart, LongNamesKeepTheirEndInsideOfTheDrawing) {
  const std::string svg = to_svg(BarChart{"t", {{std::string(200, 'x') + ".down_proj", 1}}});
  EXPECT_EQ(count(svg, ".down_proj</text>"), 1u);
  EXPECT_EQ(count(svg, std::string(80, 'x') + ".down_proj</text>"), 0u);
  EXPECT_EQ(count(svg, "<title>xxx"), 1u);
}

TEST(Histogram, HeightsAreInProportion) {
  const auto heights = numbers_behind(
      to_svg(Histogram{"t", "x", 0, 3, Scaling::kLinear, {10, 5, 0}, {}}), " height=\"");
  ASSERT_EQ(heights.size(), 3u);
  EXPECT_NEAR(heights[0], 2 * heights[1], 0.2);
  EXPECT_GT(heights[1], 50);
  EXPECT_EQ(heights[2], 0);
}

}  // namespace
}  // namespace nibble::report
