#include "cli/analysis_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/damage_report.h"
#include "report/decimal.h"

namespace nibble::cli {
namespace {

using eval::Estimate;
using eval::PositionMeans;
using report::Table;

// Of a mean of log-perplexities.
std::string perplexity_text(const Estimate& nll) {
  const double perplexity = std::exp(nll.value);
  return with_error(perplexity, perplexity * nll.standard_error, 2);
}

std::string increase_text(const Estimate& increase) {
  const double ratio = std::exp(increase.value);
  return signed_with_error(100 * (ratio - 1), 100 * ratio * increase.standard_error, 2);
}

std::string pair_text(const PositionMeans& model, const PositionMeans& quantized,
                      std::size_t octave) {
  const std::string own = fmt::format("{:.3g}", model.in_octave(octave).value);
  return quantized.positions() == 0
             ? own
             : fmt::format("{} / {:.3g}", own, quantized.in_octave(octave).value);
}

std::string decibel_text(double decibels) {
  return std::isinf(decibels) ? "exact" : report::decimal(decibels, 1);
}

std::vector<std::string> octave_names(const PositionMeans& means, std::string first) {
  std::vector<std::string> names = {std::move(first)};
  for (std::size_t octave = 0; octave < means.octaves(); ++octave) {
    names.push_back(octave_name(octave, means.positions()));
  }
  return names;
}

std::vector<std::string> pair_row(std::string name, const PositionMeans& model,
                                  const PositionMeans& quantized, std::size_t octaves) {
  std::vector<std::string> row = {std::move(name)};
  for (std::size_t octave = 0; octave < octaves; ++octave) {
    row.push_back(octave < model.octaves() ? pair_text(model, quantized, octave) : "");
  }
  return row;
}

// The table cut to `width`: the last positions first, then the first ones.
std::string fitted(const Table& table, std::size_t width) {
  if (width == 0) {
    return report::to_text(table);
  }
  std::vector<std::size_t> importance;
  for (std::size_t low = 1, high = table.columns.size() - 1; low <= high; ++low, --high) {
    importance.push_back(high);
    if (low < high) {
      importance.push_back(low);
    }
  }
  return report::to_text(report::fit_columns(table, importance, width).table);
}

std::string stack_text(const AnalysisView& view, const eval::StackAnalysis& stack,
                       std::size_t width) {
  std::string text = fmt::format("\n{}\nlargest |x| of a token by its position{}\n{}",
                                 stack_title(stack), view.compares() ? ": model / quantized" : "",
                                 fitted(magnitude_table(stack), width));
  if (view.tells_noise()) {
    text += fmt::format("\nsignal-to-noise, dB\n{}", report::to_text(noise_table(stack, true)));
  }
  return text;
}

}  // namespace

std::string octave_name(std::size_t octave, std::int64_t positions) {
  const eval::Positions range = eval::octave(octave);
  const std::int64_t last = std::min(range.last, positions);
  return range.first >= last ? fmt::format("{}", range.first)
                             : fmt::format("{}-{}", range.first, last);
}

Table loss_table(const AnalysisView& view) {
  const eval::PositionalLoss& loss = view.analysis.loss.value();
  Table table{{"position", "perplexity"}, {}};
  if (view.compares()) {
    table.columns.insert(table.columns.end(), {"quantized", "increase %"});
  }
  const auto add = [&](std::string name, const auto& estimate_of) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {std::move(name), perplexity_text(estimate_of(loss.model))};
    if (view.compares()) {
      row.push_back(perplexity_text(estimate_of(loss.quantized)));
      row.push_back(increase_text(estimate_of(loss.increase)));
    }
  };
  for (std::size_t octave = 1; octave < loss.model.octaves(); ++octave) {
    add(octave_name(octave, loss.model.positions()),
        [&](const PositionMeans& means) { return means.in_octave(octave); });
  }
  add("all", [](const PositionMeans& means) { return means.all(); });
  return table;
}

Table magnitude_table(const eval::StackAnalysis& stack) {
  const PositionMeans& first = stack.embedding.model.magnitude;
  Table table{octave_names(first, "place"), {}};
  const auto add = [&](const std::string& name, const eval::PlaceRanges& ranges) {
    table.rows.push_back(pair_row(name, ranges.model.magnitude, ranges.quantized.magnitude,
                                  table.columns.size() - 1));
  };
  add("embedding", stack.embedding);
  for (std::size_t b = 0; b < stack.blocks.size(); ++b) {
    for (const eval::PlaceRanges& ranges : stack.blocks[b].ranges) {
      add(fmt::format("{} {}", b + 1, ranges.place), ranges);
    }
  }
  return table;
}

Table range_table(const eval::BlockAnalysis& block) {
  const PositionMeans& first = block.ranges.back().model.magnitude;
  Table table{octave_names(first, "place"), {}};
  const std::size_t octaves = table.columns.size() - 1;
  for (const eval::PlaceRanges& ranges : block.ranges) {
    table.rows.push_back(pair_row(ranges.place + ", smallest", ranges.model.minimum,
                                  ranges.quantized.minimum, octaves));
    table.rows.push_back(pair_row(ranges.place + ", largest", ranges.model.maximum,
                                  ranges.quantized.maximum, octaves));
  }
  return table;
}

Table noise_table(const eval::StackAnalysis& stack, bool with_layers) {
  Table table{{"behind", "all quantized", "block alone"}, {}};
  for (std::size_t b = 0; b < stack.blocks.size(); ++b) {
    const std::vector<eval::PlaceNoise>& noise = stack.blocks[b].noise;
    for (std::size_t i = with_layers ? 0 : noise.size() - 1; i < noise.size(); ++i) {
      const bool is_stream = i + 1 == noise.size();
      table.rows.push_back({is_stream ? fmt::format("block {}", b + 1) : "  " + noise[i].place,
                            decibel_text(noise[i].chained.decibels()),
                            decibel_text(noise[i].alone.decibels())});
    }
  }
  return table;
}

std::string loss_summary(const AnalysisView& view) {
  if (!view.compares()) {
    return "";
  }
  const Estimate growth = view.analysis.loss.value().growth.slope();
  return fmt::format(
      "each doubling of the position adds {} to the increase of log-perplexity (nats)",
      signed_with_error(growth.value, growth.standard_error, 4));
}

std::string stack_title(const eval::StackAnalysis& stack) {
  return fmt::format("{}: {} blocks, {}", stack.name, stack.blocks.size(),
                     stack.norms == models::NormPlacement::kPre ? "pre-norm" : "post-norm");
}

std::string analysis_text(const AnalysisView& view, std::size_t width) {
  std::string text = fmt::format(
      "{}{}: {} tokens of {} in {} texts or windows; ± is a standard error, of windows\n",
      view.model, view.compares() ? fmt::format(" / {} ({})", view.quantized, view.recipe) : "",
      view.analysis.tokens, view.text, view.analysis.texts);
  if (view.analysis.loss) {
    text += fmt::format("\n{}", report::to_text(loss_table(view)));
    text += view.compares() ? loss_summary(view) + "\n" : "";
  }
  for (const eval::StackAnalysis& stack : view.analysis.stacks) {
    text += stack_text(view, stack, width);
  }
  if (view.compares() && !view.tells_noise()) {
    text +=
        fmt::format("\nno signal-to-noise: the recipe '{}' scales or turns values between layers\n",
                    view.recipe);
  }
  return text;
}

}  // namespace nibble::cli
