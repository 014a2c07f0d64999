#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "eval/activation_profile.h"
#include "eval/weight_profile.h"
#include "ops/layers.h"

namespace nibble::cli {

/// What `inspect --layer` shows of one layer.
struct LayerView {
  const ops::Linear* layer = nullptr;
  eval::WeightProfile weights;
  std::optional<eval::ActivationProfile> activations;  // with a text
};

core::Json layer_json(const LayerView& view);
std::string layer_text(const LayerView& view);
std::string layer_page(const LayerView& view, const std::string& model);

}  // namespace nibble::cli
