#include "results/measured.h"

#include <algorithm>

#include "core/json.h"

namespace nibble::results {
namespace {

using compress::LayerReport;
using eval::DamageRow;

core::Json interval_json(const eval::Interval& interval) {
  return {interval.low, interval.high};
}

void add_speed(core::Json& json, const std::string& name, const std::optional<eval::Speed>& speed) {
  json[name] = speed ? core::Json(speed->median) : core::Json();
  json[name + "_quartiles"] = speed ? core::Json{speed->low, speed->high} : core::Json();
}

}  // namespace

std::vector<LayerReport> worst_layers(const DamageRow& row, std::size_t count) {
  std::vector<LayerReport> layers = row.layers;
  std::stable_sort(layers.begin(), layers.end(), [](const LayerReport& a, const LayerReport& b) {
    return a.relative_error > b.relative_error;
  });
  layers.resize(std::min(count, layers.size()));
  return layers;
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

core::Json evaluation_json(const std::string& name, const models::Model& model,
                           const eval::PerplexityResult& result) {
  core::Json json = {
      {"model", name},
      {"recipe", model.compression.recipe.empty() ? "none" : model.compression.recipe},
      {"tokens", result.predictions},
      {"text_tokens", result.text_tokens},
      {"nll", result.nll.value},
      {"nll_standard_error", result.nll.standard_error},
      {"nll_window_standard_error", result.nll.window_standard_error},
      {"perplexity", result.perplexity},
      {"bits_per_weight", models::block_bits_per_weight(model.network)},
      {"weight_bytes", models::total_weight_bytes(model.network)},
      {"seconds", result.seconds}};
  if (result.divergence) {
    json.update(divergence_json(*result.divergence));
  }
  return json;
}

core::Json damage_json(const DamageRow& row, std::size_t layers) {
  core::Json json = {{"recipe", row.recipe},
                     {"perplexity", row.perplexity},
                     {"increase", row.increase},
                     {"increase_standard_error", row.increase_standard_error},
                     {"bits_per_weight", row.bits_per_weight},
                     {"weight_bytes", row.weight_bytes},
                     {"peak_bytes", row.peak_bytes},
                     {"quantize_seconds", row.quantize_seconds}};
  add_speed(json, "prefill_tokens_per_s", row.prefill);
  add_speed(json, "decode_tokens_per_s", row.decode);
  json.update(divergence_json(row.divergence));
  if (layers > 0) {
    core::Json& list = json["layers"] = core::Json::array();
    for (const LayerReport& layer : worst_layers(row, layers)) {
      list.push_back({{"name", layer.name}, {"relative_error", layer.relative_error}});
    }
  }
  return json;
}

core::Json quantized_json(const std::string& name, const models::Model& original,
                          const std::string& output, const models::Model& result) {
  return {{"model", name},
          {"output", output},
          {"recipe", result.compression.recipe},
          {"bits_per_weight", models::block_bits_per_weight(result.network)},
          {"weight_bytes", models::total_weight_bytes(result.network)},
          {"original_weight_bytes", models::total_weight_bytes(original.network)}};
}

}  // namespace nibble::results
