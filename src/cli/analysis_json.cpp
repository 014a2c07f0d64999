#include <algorithm>
#include <cmath>

#include "cli/analysis_report.h"
#include "core/json.h"

namespace nibble::cli {
namespace {

using core::Json;
using eval::PositionMeans;

// JSON has no infinity and no NaN.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

void put(Json& json, const std::string& name, const eval::Estimate& estimate) {
  json[name] = number(estimate.value);
  json[name + "_standard_error"] = number(estimate.standard_error);
}

Json positions_of(std::size_t octave, std::int64_t positions) {
  const eval::Positions range = eval::octave(octave);
  return {{"first", range.first}, {"last", std::min(range.last, positions)}};
}

// From position `first` on.
Json curve_json(const PositionMeans& means, std::int64_t first) {
  Json values = Json::array();
  for (std::int64_t position = first; position <= means.positions(); ++position) {
    values.push_back(number(means.at(position)));
  }
  return values;
}

Json loss_json(const eval::PositionalLoss& loss, bool compares) {
  constexpr std::int64_t kFirst = 2;  // nothing predicts the first token
  Json json = {{"first_position", kFirst}, {"nll_by_position", curve_json(loss.model, kFirst)}};
  const auto put_all = [&](Json& row, const auto& estimate_of) {
    put(row, "nll", estimate_of(loss.model));
    if (compares) {
      put(row, "quantized_nll", estimate_of(loss.quantized));
      put(row, "increase", estimate_of(loss.increase));
    }
  };
  put_all(json, [](const PositionMeans& means) { return means.all(); });
  if (compares) {
    json["quantized_nll_by_position"] = curve_json(loss.quantized, kFirst);
    put(json, "increase_per_doubling", loss.growth.slope());
  }
  json["positions"] = Json::array();
  for (std::size_t octave = 1; octave < loss.model.octaves(); ++octave) {
    Json row = positions_of(octave, loss.model.positions());
    put_all(row, [&](const PositionMeans& means) { return means.in_octave(octave); });
    json["positions"].push_back(std::move(row));
  }
  return json;
}

void put_range(Json& row, const std::string& prefix, const eval::RangeCurves& curves,
               std::size_t octave) {
  row[prefix + "minimum"] = number(curves.minimum.in_octave(octave).value);
  row[prefix + "maximum"] = number(curves.maximum.in_octave(octave).value);
  put(row, prefix + "magnitude", curves.magnitude.in_octave(octave));
}

// Block 0 is the embedding.
Json ranges_json(std::size_t block, const eval::PlaceRanges& ranges, bool compares) {
  Json rows = Json::array();
  const PositionMeans& model = ranges.model.magnitude;
  for (std::size_t octave = 0; octave < model.octaves(); ++octave) {
    Json row = positions_of(octave, model.positions());
    put_range(row, "", ranges.model, octave);
    if (compares) {
      put_range(row, "quantized_", ranges.quantized, octave);
    }
    rows.push_back(std::move(row));
  }
  return {{"block", block}, {"place", ranges.place}, {"positions", std::move(rows)}};
}

Json stack_json(const AnalysisView& view, const eval::StackAnalysis& stack) {
  Json json = {{"name", stack.name},
               {"norms", stack.norms == models::NormPlacement::kPre ? "pre" : "post"},
               {"ranges", Json::array({ranges_json(0, stack.embedding, view.compares())})}};
  for (std::size_t b = 0; b < stack.blocks.size(); ++b) {
    for (const eval::PlaceRanges& ranges : stack.blocks[b].ranges) {
      json["ranges"].push_back(ranges_json(b + 1, ranges, view.compares()));
    }
    for (const eval::PlaceNoise& noise : stack.blocks[b].noise) {
      json["signal_to_noise"].push_back({{"block", b + 1},
                                         {"place", noise.place},
                                         {"decibels", number(noise.chained.decibels())},
                                         {"alone_decibels", number(noise.alone.decibels())}});
    }
  }
  return json;
}

}  // namespace

core::Json analysis_json(const AnalysisView& view) {
  Json json = {{"model", view.model},
               {"text", view.text},
               {"texts", view.analysis.texts},
               {"tokens", view.analysis.tokens},
               {"stacks", Json::array()}};
  if (view.compares()) {
    json["quantized"] = view.quantized;
    json["recipe"] = view.recipe;
  }
  if (view.analysis.loss) {
    json["loss"] = loss_json(*view.analysis.loss, view.compares());
  }
  for (const eval::StackAnalysis& stack : view.analysis.stacks) {
    json["stacks"].push_back(stack_json(view, stack));
  }
  return json;
}

}  // namespace nibble::cli
