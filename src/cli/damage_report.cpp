#include "cli/damage_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "report/bar_chart.h"
#include "report/decimal.h"
#include "report/html.h"
#include "report/scatter_plot.h"
#include "results/measured.h"

namespace nibble::cli {
namespace {

using compress::LayerReport;
using eval::DamageRow;

constexpr std::string_view kNothing = "-";  // a cell

// Half of what lies between the quartiles, behind the sign that stands before errors elsewhere.
std::string speed_text(const std::optional<eval::Speed>& speed) {
  return speed ? with_error(speed->median, (speed->high - speed->low) / 2, speed->median < 100)
               : std::string(kNothing);
}

double megabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

// A divergence that the table shows as 0.00000 is none: on a logarithmic axis it would take the
// room of all others.
report::ScatterPoint kl_point(const DamageRow& row) {
  constexpr double kLeast = 0.5e-5;
  const eval::Mean& kl = row.divergence.kl;
  return kl.value < kLeast ? report::ScatterPoint{row.recipe, row.bits_per_weight, 0, 0}
                           : report::ScatterPoint{row.recipe, row.bits_per_weight, kl.value,
                                                  kl.window_standard_error};
}

report::ScatterPlot kl_plot(const std::vector<DamageRow>& rows) {
  report::ScatterPlot plot{"Size against KL divergence (logarithmic)",
                           "bits per weight in the blocks",
                           "KL divergence from the original, nats",
                           report::Scaling::kLogarithmic,
                           report::Scaling::kLogarithmic,
                           {}};
  std::transform(rows.begin(), rows.end(), std::back_inserter(plot.points), kl_point);
  return plot;
}

// A column of the damage table; those with small ranks are shown first where room is short.
struct Column {
  const char* name;
  int rank;
  std::string (*cell)(const DamageRow&);
};

constexpr Column kColumns[] = {
    {"recipe", 0, [](const DamageRow& row) { return row.recipe; }},
    {"perplexity", 2, [](const DamageRow& row) { return fmt::format("{:.4f}", row.perplexity); }},
    {"increase %", 1,
     [](const DamageRow& row) {
       return signed_with_error(100 * row.increase, 100 * row.increase_standard_error, 2);
     }},
    {"KL", 5,
     [](const DamageRow& row) {
       return with_error(row.divergence.kl.value, row.divergence.kl.window_standard_error, 5);
     }},
    {"KL median", 12,
     [](const DamageRow& row) { return report::decimal(row.divergence.kl_median, 5); }},
    {"KL 99.9 %", 11,
     [](const DamageRow& row) { return report::decimal(row.divergence.kl_p999, 4); }},
    {"top-1 %", 4,
     [](const DamageRow& row) {
       return with_error(100 * row.divergence.top1_agreement,
                         100 * row.divergence.top1_standard_error, 2);
     }},
    {"bits/weight", 3,
     [](const DamageRow& row) { return fmt::format("{:.3f}", row.bits_per_weight); }},
    {"weights MB", 7,
     [](const DamageRow& row) { return fmt::format("{:.2f}", megabytes(row.weight_bytes)); }},
    {"peak MB", 10,
     [](const DamageRow& row) { return fmt::format("{:.2f}", megabytes(row.peak_bytes)); }},
    {"prefill tok/s", 8, [](const DamageRow& row) { return speed_text(row.prefill); }},
    {"decode tok/s", 6, [](const DamageRow& row) { return speed_text(row.decode); }},
    {"quantize s", 9,
     [](const DamageRow& row) { return fmt::format("{:.1f}", row.quantize_seconds); }},
};

// All but those that say nothing of any row.
std::vector<Column> columns_of(const std::vector<DamageRow>& rows) {
  std::vector<Column> columns;
  std::copy_if(std::begin(kColumns), std::end(kColumns), std::back_inserter(columns),
               [&](const Column& column) {
                 return std::any_of(rows.begin(), rows.end(), [&](const DamageRow& row) {
                   return column.cell(row) != kNothing;
                 });
               });
  return columns;
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

report::ScatterPlot increase_plot(const std::vector<DamageRow>& rows) {
  report::ScatterPlot plot{"Size against perplexity",   "bits per weight in the blocks",
                           "increase of perplexity, %", report::Scaling::kLogarithmic,
                           report::Scaling::kLinear,    {}};
  for (const DamageRow& row : rows) {
    plot.points.push_back(
        {row.recipe, row.bits_per_weight, 100 * row.increase, 100 * row.increase_standard_error});
  }
  return plot;
}

std::string signed_with_error(double value, double standard_error, int digits) {
  const std::string text = with_error(value, standard_error, digits);
  return text.front() == '-' ? text : "+" + text;
}

std::string with_error(double value, double standard_error, int digits) {
  return std::isnan(standard_error)
             ? report::decimal(value, digits)
             : report::decimal(value, digits) + " ± " + report::decimal(standard_error, digits);
}

report::Table damage_table(const std::vector<DamageRow>& rows) {
  report::Table table;
  for (const Column& column : columns_of(rows)) {
    table.columns.emplace_back(column.name);
  }
  for (const DamageRow& row : rows) {
    std::vector<std::string>& cells = table.rows.emplace_back();
    for (const Column& column : columns_of(rows)) {
      cells.push_back(column.cell(row));
    }
  }
  return table;
}

report::FittedTable damage_table(const std::vector<DamageRow>& rows, std::size_t width) {
  const std::vector<Column> columns = columns_of(rows);
  std::vector<std::size_t> importance(columns.size() - 1);
  std::iota(importance.begin(), importance.end(), 1);
  std::sort(importance.begin(), importance.end(),
            [&](std::size_t a, std::size_t b) { return columns[a].rank < columns[b].rank; });
  return report::fit_columns(damage_table(rows), importance, width);
}

report::Table worst_layers_table(const std::vector<DamageRow>& rows, std::size_t layers) {
  report::Table table{{"recipe", "layer", "relative error"}, {}};
  for (const DamageRow& row : rows) {
    for (const LayerReport& layer : results::worst_layers(row, layers)) {
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
          "paired differences on the same predictions; binomial for top-1. Behind speeds, which "
          "are "
          "medians of repeats, it is half of what lies between their quartiles; speeds whose "
          "repeats differ too much to tell one are left out. The line joins the recipes "
          "that no other beats in both size and loss (the Pareto front)."),
      report::to_svg(increase_plot(rows)) + report::to_svg(kl_plot(rows))};
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
