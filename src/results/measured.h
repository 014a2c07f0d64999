#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "eval/damage.h"
#include "eval/perplexity.h"
#include "models/model.h"

/// What was measured, as JSON: the objects that commands print for --json, and the library returns.
namespace nibble::results {

/// The statistics of a divergence; null where one is not defined.
core::Json divergence_json(const eval::Divergence& divergence);

/// The perplexity of a text by the model that is called `name`: `nibble eval`.
core::Json evaluation_json(const std::string& name, const models::Model& model,
                           const eval::PerplexityResult& result);

/// A row of `nibble compare`, with its `layers` worst layers.
core::Json damage_json(const eval::DamageRow& row, std::size_t layers);

/// The `count` layers with the largest relative error, the largest first.
std::vector<compress::LayerReport> worst_layers(const eval::DamageRow& row, std::size_t count);

/// What was made of a model: `nibble quantize`.
core::Json quantized_json(const std::string& name, const models::Model& original,
                          const std::string& output, const models::Model& result);

}  // namespace nibble::results
