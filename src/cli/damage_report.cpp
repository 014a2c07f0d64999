#include "cli/damage_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/bar_chart.h"
#include "report/html.h"
#include "report/scatter_plot.h"

namespace nibble::cli {
namespace {

using compress::LayerReport;
using eval::DamageRow;

core::Json interval_json(const eval::Interval& interval) {
  return {interval.low, interval.high};
}

double megabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

std::vector<LayerReport> worst_layers(const DamageRow& row, std::size_t count) {
  std::vector<LayerReport> layers = row.layers;
  std::stable_sort(layers.begin(), layers.end(), [](const LayerReport& a, const LayerReport& b) {
    return a.relative_error > b.relative_error;
  });
  layers.resize(std::min(count, layers.size()));
  return layers;
}

std::string loss_plots(const std::vector<DamageRow>& rows) {
  report::ScatterPlot increase{"Size against perplexity",   "bits per weight in the blocks",
                               "increase of perplexity, %", report::Scaling::kLogarithmic,
                               report::Scaling::kLinear,    {}};
  report::ScatterPlot kl{"Size against KL divergence (logarithmic)",
                         "bits per weight in the blocks",
                         "KL divergence from the original, nats",
                         report::Scaling::kLogarithmic,
                         report::Scaling::kLogarithmic,
                         {}};
  for (const DamageRow& row : rows) {
    increase.points.push_back(
        {row.recipe, row.bits_per_weight, 100 * row.increase, 100 * row.increase_standard_error});
    kl.points.push_back({row.recipe, row.bits_per_weight, row.divergence.kl.value,
                         row.divergence.kl.window_standard_error});
  }
  return report::to_svg(increase) + report::to_svg(kl);
}

// Bars in the order of the model.
std::string layer_bars(const DamageRow& row) {
  report::BarChart chart{row.recipe + ": squared error of each layer's weights, relative", {}};
  for (const LayerReport& layer : row.layers) {
    chart.bars.push_back({layer.name, layer.relative_error});
  }
  return report::foldable("Layers of " + row.recipe, report::to_svg(chart));
}

}  // namespace

std::string signed_with_error(double value, double standard_error, int digits) {
  return fmt::format("{}{}", std::signbit(value) ? "" : "+",
                     with_error(value, standard_error, digits));
}

std::string with_error(double value, double standard_error, int digits) {
  return std::isnan(standard_error)
             ? fmt::format("{:.{}f}", value, digits)
             : fmt::format("{:.{}f} ± {:.{}f}", value, digits, standard_error, digits);
}

core::Json divergence_json(const eval::Divergence& divergence) {
  return {{"kl_divergence", divergence.kl.value},
          {"kl_divergence_standard_error", divergence.kl.standard_error},
          {"kl_divergence_window_standard_error", divergence.kl.window_standard_error},
          {"kl_divergence_median", divergence.kl_median},
          {"kl_divergence_median_interval", interval_json(divergence.kl_median_interval)},
          {"kl_divergence_p999", divergence.kl_p999},
          {"kl_divergence_p999_interval", interval_json(divergence.kl_p999_interval)},
          {"top1_agreement", divergence.top1_agreement},
          {"top1_agreement_standard_error", divergence.top1_standard_error},
          {"nll_increase", divergence.nll_increase.value},
          {"nll_increase_standard_error", divergence.nll_increase.standard_error},
          {"nll_increase_window_standard_error", divergence.nll_increase.window_standard_error}};
}

core::Json damage_json(const DamageRow& row, std::size_t layers) {
  core::Json json = {{"recipe", row.recipe},
                     {"perplexity", row.perplexity},
                     {"increase", row.increase},
                     {"increase_standard_error", row.increase_standard_error},
                     {"bits_per_weight", row.bits_per_weight},
                     {"weight_bytes", row.weight_bytes},
                     {"peak_bytes", row.peak_bytes},
                     {"prefill_tokens_per_s", row.prefill_tokens_per_second},
                     {"decode_tokens_per_s", row.decode_tokens_per_second},
                     {"quantize_seconds", row.quantize_seconds}};
  json.update(divergence_json(row.divergence));
  if (layers > 0) {
    core::Json& list = json["layers"] = core::Json::array();
    for (const LayerReport& layer : worst_layers(row, layers)) {
      list.push_back({{"name", layer.name}, {"relative_error", layer.relative_error}});
    }
  }
  return json;
}

report::Table damage_table(const std::vector<DamageRow>& rows) {
  report::Table table;
  table.columns = {"recipe",        "perplexity",   "increase %",  "KL",         "KL median",
                   "KL 99.9 %",     "top-1 %",      "bits/weight", "weights MB", "peak MB",
                   "prefill tok/s", "decode tok/s", "quantize s"};
  for (const DamageRow& row : rows) {
    const eval::Divergence& divergence = row.divergence;
    table.rows.push_back(
        {row.recipe, fmt::format("{:.4f}", row.perplexity),
         signed_with_error(100 * row.increase, 100 * row.increase_standard_error, 2),
         with_error(divergence.kl.value, divergence.kl.window_standard_error, 5),
         fmt::format("{:.5f}", divergence.kl_median), fmt::format("{:.4f}", divergence.kl_p999),
         with_error(100 * divergence.top1_agreement, 100 * divergence.top1_standard_error, 2),
         fmt::format("{:.3f}", row.bits_per_weight),
         fmt::format("{:.2f}", megabytes(row.weight_bytes)),
         fmt::format("{:.2f}", megabytes(row.peak_bytes)),
         fmt::format("{:.0f}", row.prefill_tokens_per_second),
         fmt::format("{:.1f}", row.decode_tokens_per_second),
         fmt::format("{:.1f}", row.quantize_seconds)});
  }
  return table;
}

report::Table worst_layers_table(const std::vector<DamageRow>& rows, std::size_t layers) {
  report::Table table{{"recipe", "layer", "relative error"}, {}};
  for (const DamageRow& row : rows) {
    for (const LayerReport& layer : worst_layers(row, layers)) {
      table.rows.push_back({row.recipe, layer.name, fmt::format("{:.6f}", layer.relative_error)});
    }
  }
  return table;
}

std::string damage_page(const std::string& title, const std::string& protocol,
                        const std::vector<DamageRow>& rows, std::size_t layers) {
  std::vector<std::string> sections = {
      report::paragraph(protocol), report::to_html(damage_table(rows)),
      report::paragraph(
          "What follows ± is one standard error: over windows, of the increase from the "
          "paired differences on the same predictions; binomial for top-1. The line joins the "
          "recipes "
          "that no other beats in both size and loss (the Pareto front)."),
      loss_plots(rows)};
  if (layers > 0) {
    sections.push_back(report::to_html(worst_layers_table(rows, layers)));
  }
  for (const DamageRow& row : rows) {
    if (!row.layers.empty()) {
      sections.push_back(layer_bars(row));
    }
  }
  return report::page(title, sections);
}

}  // namespace nibble::cli
