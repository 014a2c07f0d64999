#include "cli/layer_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/json.h"
#include "report/bar_chart.h"
#include "report/histogram.h"
#include "report/html.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kMostCodes = 16;     // drawn and listed one by one
constexpr std::size_t kMostChannels = 32;  // listed

std::string line_of(const LayerView& view) {
  const formats::PackedWeight& weight = view.layer->weight;
  std::string line = fmt::format("{} {} [{}, {}]: {:.3f} bits per weight", view.layer->name,
                                 formats::to_string(weight.scheme), weight.n, weight.k,
                                 formats::bits_per_weight(weight));
  if (!view.weights.codes.empty()) {
    line += fmt::format("; a code tells {:.3f} of {} bits", view.weights.code_entropy,
                        formats::value_bits(weight.scheme));
  }
  return line;
}

std::string line_of(const eval::ActivationProfile& profile, std::size_t outliers) {
  return fmt::format(
      "input on {} tokens: {} of {} channels reach {:g} (largest |x| {:.4g})", profile.tokens,
      outliers, profile.channel_maximum.size(), eval::kOutlier,
      *std::max_element(profile.channel_maximum.begin(), profile.channel_maximum.end()));
}

report::Table codes_table(const LayerView& view) {
  double weights = 0;
  for (const eval::CodeUse& use : view.weights.codes) {
    weights += static_cast<double>(use.count);
  }
  report::Table table{{"code", "value / scale", "weights", "share"}, {}};
  for (const eval::CodeUse& use : view.weights.codes) {
    table.rows.push_back({fmt::format("{}", use.code), fmt::format("{:.4f}", use.value),
                          fmt::format("{}", use.count),
                          fmt::format("{:.2f} %", 100 * static_cast<double>(use.count) / weights)});
  }
  return table;
}

report::Table channels_table(const eval::ActivationProfile& profile,
                             const std::vector<std::int64_t>& channels) {
  report::Table table{{"outlier channel", "largest |x|"}, {}};
  for (const std::int64_t channel : channels) {
    table.rows.push_back(
        {fmt::format("{}", channel),
         fmt::format("{:.4g}", profile.channel_maximum[static_cast<std::size_t>(channel)])});
  }
  return table;
}

// From the first to the last column that holds something.
report::Histogram drawing_of(const eval::GrowingHistogram& histogram, const std::string& title,
                             const std::string& x_name) {
  const auto& counts = histogram.counts();
  const auto used = [](std::int64_t count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), used);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), used).base();
  report::Histogram drawing{title, x_name, 0, 0, report::Scaling::kLinear, {}, {}};
  if (first >= last) {
    return drawing;
  }
  const double step = 2 * histogram.reach() / static_cast<double>(counts.size());
  drawing.low = step * static_cast<double>(first - counts.begin()) - histogram.reach();
  drawing.high = step * static_cast<double>(last - counts.begin()) - histogram.reach();
  drawing.counts.assign(first, last);
  return drawing;
}

std::string weights_svg(const LayerView& view) {
  report::Histogram drawing =
      drawing_of(view.weights.histogram, "Weights of " + view.layer->name,
                 view.weights.codes.empty() ? "weight" : "weight / scale of its group");
  if (view.weights.codes.size() <= kMostCodes) {
    for (const eval::CodeUse& use : view.weights.codes) {
      if (use.count > 0) {
        drawing.marks.push_back({use.value, fmt::format("{}", use.code)});
      }
    }
  }
  return report::to_svg(drawing);
}

std::string inputs_svg(const std::string& layer, const eval::ActivationProfile& profile) {
  report::Histogram drawing =
      drawing_of(profile.histogram, "Inputs of " + layer + " (logarithmic heights)", "x");
  drawing.y_scaling = report::Scaling::kLogarithmic;
  for (const double outlier : {-eval::kOutlier, eval::kOutlier}) {
    if (drawing.low <= outlier && outlier <= drawing.high) {
      drawing.marks.push_back({outlier, fmt::format("{:g}", outlier)});
    }
  }
  return report::to_svg(drawing);
}

std::string codes_svg(const LayerView& view) {
  report::BarChart chart{"How often each code stands for a weight", {}};
  for (const eval::CodeUse& use : view.weights.codes) {
    chart.bars.push_back(
        {fmt::format("{} ({:+.4f})", use.code, use.value), static_cast<double>(use.count)});
  }
  return report::to_svg(chart);
}

std::vector<std::int64_t> listed(std::vector<std::int64_t> channels) {
  channels.resize(std::min(channels.size(), kMostChannels));
  return channels;
}

}  // namespace

core::Json layer_json(const LayerView& view) {
  const formats::PackedWeight& weight = view.layer->weight;
  const auto histogram = [](const eval::GrowingHistogram& counts) -> core::Json {
    return {{"low", -counts.reach()}, {"high", counts.reach()}, {"counts", counts.counts()}};
  };
  core::Json json = {{"layer", view.layer->name},
                     {"scheme", formats::to_string(weight.scheme)},
                     {"shape", {weight.n, weight.k}},
                     {"histogram", histogram(view.weights.histogram)}};
  if (!view.weights.codes.empty()) {
    core::Json& codes = json["codes"] = core::Json::array();
    for (const eval::CodeUse& use : view.weights.codes) {
      codes.push_back({{"code", use.code}, {"value", use.value}, {"count", use.count}});
    }
    json["code_entropy"] = view.weights.code_entropy;
  }
  if (view.activations) {
    const auto channels = eval::outlier_channels(*view.activations);
    json["activations"] = {{"tokens", view.activations->tokens},
                           {"histogram", histogram(view.activations->histogram)},
                           {"channel_maximum", view.activations->channel_maximum},
                           {"outlier_channels", channels}};
  }
  return json;
}

std::string layer_text(const LayerView& view) {
  std::string text = line_of(view) + "\n";
  if (!view.weights.codes.empty() && view.weights.codes.size() <= kMostCodes) {
    text += report::to_text(codes_table(view));
  }
  if (view.activations) {
    const auto channels = eval::outlier_channels(*view.activations);
    text += line_of(*view.activations, channels.size()) + "\n";
    text += channels.empty() ? ""
                             : report::to_text(channels_table(*view.activations, listed(channels)));
  }
  return text;
}

std::string layer_page(const LayerView& view, const std::string& model) {
  std::vector<std::string> sections = {report::paragraph(line_of(view)), weights_svg(view)};
  if (!view.weights.codes.empty()) {
    sections.push_back(view.weights.codes.size() <= kMostCodes
                           ? codes_svg(view)
                           : report::foldable("Codes", codes_svg(view)));
  }
  if (view.activations) {
    const auto channels = eval::outlier_channels(*view.activations);
    sections.push_back(report::paragraph(line_of(*view.activations, channels.size())));
    sections.push_back(inputs_svg(view.layer->name, *view.activations));
    if (!channels.empty()) {
      sections.push_back(report::to_html(channels_table(*view.activations, listed(channels))));
    }
  }
  return report::page("Layer " + view.layer->name + " of " + model, sections);
}

}  // namespace nibble::cli
