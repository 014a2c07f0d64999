#include "cli/training_page.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/html.h"
#include "report/line_plot.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

using report::Scaling;
using tune::LossPoint;
using Steps = std::vector<const LossPoint*>;
using Number = double LossPoint::*;

constexpr std::size_t kMostPoints = 200;  // of a line
constexpr std::size_t kMostBlocks = 6;    // of a drawing

double mean(std::span<const LossPoint* const> steps, Number number) {
  double sum = 0;
  for (const LossPoint* step : steps) {
    sum += step->*number;
  }
  return sum / static_cast<double>(steps.size());
}

report::Line line_of(std::string label, double strength, const Steps& steps, Number number) {
  report::Line line{std::move(label), report::LineStyle::kFirst, strength, {}};
  const std::size_t count = std::min(steps.size(), kMostPoints);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * steps.size() / count;
    const std::size_t end = (i + 1) * steps.size() / count;
    const auto part = std::span(steps).subspan(begin, end - begin);
    line.points.push_back(
        {static_cast<double>(part.front()->step + part.back()->step) / 2, mean(part, number), 0});
  }
  return line;
}

// The steps of each block, or of the whole model (block 0).
std::map<std::int64_t, Steps> by_block(const Steps& steps) {
  std::map<std::int64_t, Steps> blocks;
  for (const LossPoint* step : steps) {
    blocks[step->block].push_back(step);
  }
  return blocks;
}

std::string plot(const std::string& title, Scaling scaling, const Steps& steps, Number number) {
  report::LinePlot plot{title, "step", "", Scaling::kLinear, scaling, {}};
  const auto blocks = by_block(steps);
  const std::size_t drawn = std::min(blocks.size(), kMostBlocks);
  for (std::size_t i = 0; i < drawn; ++i) {
    const std::size_t at = drawn == 1 ? 0 : i * (blocks.size() - 1) / (drawn - 1);
    const auto& [block, of_block] = *std::next(blocks.begin(), static_cast<std::ptrdiff_t>(at));
    plot.lines.push_back(line_of(block == 0 ? "" : fmt::format("block {}", block),
                                 static_cast<double>(i + 1) / static_cast<double>(drawn), of_block,
                                 number));
  }
  return report::to_svg(plot);
}

report::Table epochs(const Steps& steps) {
  report::Table table;
  table.columns = {"epoch", "steps", "mean loss", "last loss"};
  const bool has_blocks = steps.front()->block > 0;
  if (has_blocks) {
    table.columns.insert(table.columns.begin(), "block");
  }
  for (const auto& [block, of_block] : by_block(steps)) {
    std::map<std::int64_t, Steps> parts;
    for (const LossPoint* step : of_block) {
      parts[step->epoch].push_back(step);
    }
    for (const auto& [epoch, part] : parts) {
      table.rows.push_back({std::to_string(epoch), std::to_string(part.size()),
                            fmt::format("{:.5g}", mean(part, &LossPoint::loss)),
                            fmt::format("{:.5g}", part.back()->loss)});
      if (has_blocks) {
        table.rows.back().insert(table.rows.back().begin(), std::to_string(block));
      }
    }
  }
  return table;
}

}  // namespace

std::string training_page(const std::string& title, std::span<const LossPoint> points) {
  std::vector<std::pair<std::string, Steps>> stages;  // in their order
  for (const LossPoint& point : points) {
    if (stages.empty() || stages.back().first != point.stage) {
      stages.emplace_back(point.stage, Steps());
    }
    stages.back().second.push_back(&point);
  }
  std::vector<std::string> sections;
  for (const auto& [stage, steps] : stages) {
    sections.push_back(
        report::heading(stage) + plot("Loss", Scaling::kLogarithmic, steps, &LossPoint::loss) +
        plot("Norm of the gradient", Scaling::kLogarithmic, steps, &LossPoint::gradient_norm) +
        plot("Learning rate", Scaling::kLinear, steps, &LossPoint::learning_rate) +
        report::foldable("Epochs", report::to_html(epochs(steps))));
  }
  if (sections.empty()) {
    sections.push_back(report::paragraph("No step was taken."));
  }
  return report::page(title, sections);
}

}  // namespace nibble::cli
