#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/analysis_report.h"
#include "report/html.h"
#include "report/line_plot.h"

namespace nibble::cli {
namespace {

using eval::PositionMeans;
using report::Line;
using report::LineStyle;
using report::Scaling;

constexpr std::size_t kMostBlocks = 6;  // of a drawing

// The octaves as points in the middle of their positions.
Line line_of(std::string label, LineStyle style, double strength, const PositionMeans& means) {
  Line line{std::move(label), style, strength, {}};
  for (std::size_t octave = 0; octave < means.octaves(); ++octave) {
    const eval::Positions range = eval::octave(octave);
    const auto last = static_cast<double>(std::min(range.last, means.positions()));
    const eval::Estimate mean = means.in_octave(octave);
    line.points.push_back(
        {std::sqrt(static_cast<double>(range.first) * last), mean.value, mean.standard_error});
  }
  return line;
}

std::string loss_section(const AnalysisView& view) {
  const eval::PositionalLoss& loss = view.analysis.loss.value();
  report::LinePlot plot{"Log-perplexity by position",
                        "position of the token that is predicted",
                        "nats",
                        Scaling::kLogarithmic,
                        Scaling::kLinear,
                        {line_of("model", LineStyle::kFirst, 1, loss.model)}};
  report::LinePlot increase = plot;
  std::string html = report::heading("Perplexity by position");
  if (view.compares()) {
    plot.lines.push_back(line_of("quantized", LineStyle::kSecond, 1, loss.quantized));
    increase.title = "Increase of log-perplexity by position";
    increase.lines = {line_of("increase", LineStyle::kSecond, 1, loss.increase)};
  }
  html += report::to_svg(plot);
  if (view.compares()) {
    html += report::to_svg(increase);
    html += report::paragraph(fmt::format("Over all tokens, {}.", loss_summary(view)));
  }
  return html + report::to_html(loss_table(view));
}

// Blocks from the first to the last, at most kMostBlocks, evenly spread.
std::vector<std::size_t> drawn_blocks(std::size_t blocks) {
  const std::size_t count = std::min(blocks, kMostBlocks);
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < count; ++i) {
    drawn.push_back(count == 1 ? 0 : i * (blocks - 1) / (count - 1));
  }
  return drawn;
}

void add_lines(report::LinePlot& plot, const std::string& label, double strength,
               const eval::PlaceRanges& ranges) {
  plot.lines.push_back(line_of(label, LineStyle::kFirst, strength, ranges.model.magnitude));
  if (ranges.quantized.magnitude.positions() > 0) {
    plot.lines.push_back(line_of("", LineStyle::kSecond, strength, ranges.quantized.magnitude));
  }
}

// The same place of several blocks.
std::string ranges_plot(const eval::StackAnalysis& stack, std::size_t place) {
  const std::string& name = stack.blocks.front().ranges[place].place;
  report::LinePlot plot{fmt::format("{}: largest |x| of a token", name),
                        "position of the token",
                        "mean over windows",
                        Scaling::kLogarithmic,
                        Scaling::kLogarithmic,
                        {}};
  if (place + 1 == stack.blocks.front().ranges.size()) {
    add_lines(plot, "embedding", 0, stack.embedding);
  }
  for (const std::size_t b : drawn_blocks(stack.blocks.size())) {
    const double strength = static_cast<double>(b + 1) / static_cast<double>(stack.blocks.size());
    add_lines(plot, fmt::format("block {}", b + 1), strength, stack.blocks[b].ranges[place]);
  }
  return report::to_svg(plot);
}

std::string ranges_section(const AnalysisView& view, const eval::StackAnalysis& stack) {
  std::string html = report::heading(fmt::format("Ranges in the {}", stack.name));
  html += report::paragraph(fmt::format(
      "{}. Lines get stronger from the first block to the last{}.", stack_title(stack),
      view.compares() ? "; solid lines are the model's, dashed ones the quantized model's" : ""));
  const std::size_t places = stack.blocks.front().ranges.size();
  html += ranges_plot(stack, places - 1);  // of the residual stream
  for (std::size_t place = 0; place + 1 < places; ++place) {
    html += ranges_plot(stack, place);
  }
  html += report::foldable("Largest |x|, all places", report::to_html(magnitude_table(stack)));
  for (std::size_t b = 0; b < stack.blocks.size(); ++b) {
    html += report::foldable(fmt::format("Smallest and largest values in block {}", b + 1),
                             report::to_html(range_table(stack.blocks[b])));
  }
  return html;
}

std::string noise_section(const eval::StackAnalysis& stack) {
  Line chained{"all quantized", LineStyle::kFirst, 1, {}};
  Line alone{"block alone", LineStyle::kSecond, 1, {}};
  for (std::size_t b = 0; b < stack.blocks.size(); ++b) {
    const eval::PlaceNoise& stream = stack.blocks[b].noise.back();
    const auto number = static_cast<double>(b + 1);
    chained.points.push_back({number, stream.chained.decibels(), 0});
    alone.points.push_back({number, stream.alone.decibels(), 0});
  }
  const report::LinePlot plot{"Signal-to-noise of the residual stream behind each block",
                              "block",
                              "dB",
                              Scaling::kLinear,
                              Scaling::kLinear,
                              {std::move(chained), std::move(alone)}};
  return report::heading(fmt::format("Noise in the {}", stack.name)) +
         report::paragraph(
             "10 log10(sum of x^2 / sum of (x - y)^2), x of the model and y of the quantized one: "
             "20 dB are an error of a tenth, 0 dB one as large as the values. \"All quantized\": "
             "behind blocks that are quantized too. \"Block alone\": the quantized block reads "
             "what the model's own block reads.") +
         report::to_svg(plot) + report::to_html(noise_table(stack, false)) +
         report::foldable("Each layer's output", report::to_html(noise_table(stack, true)));
}

}  // namespace

std::string analysis_page(const AnalysisView& view) {
  std::vector<std::string> sections = {report::paragraph(fmt::format(
      "{} texts or windows of {}, {} tokens. Positions are counted from 1 in each. What follows ± "
      "is one standard error, over windows{}.",
      view.analysis.texts, view.text, view.analysis.tokens,
      view.compares()
          ? fmt::format("; the quantized model is {} (recipe {})", view.quantized, view.recipe)
          : ""))};
  if (view.analysis.loss) {
    sections.push_back(loss_section(view));
  }
  for (const eval::StackAnalysis& stack : view.analysis.stacks) {
    if (view.tells_noise()) {
      sections.push_back(noise_section(stack));
    }
    sections.push_back(ranges_section(view, stack));
  }
  if (view.compares() && !view.tells_noise()) {
    sections.push_back(report::paragraph(fmt::format(
        "No signal-to-noise is given: the recipe {} scales or turns values between layers.",
        view.recipe)));
  }
  return report::page(view.compares() ? fmt::format("{} beside {}", view.quantized, view.model)
                                      : fmt::format("The inside of {}", view.model),
                      sections);
}

}  // namespace nibble::cli
