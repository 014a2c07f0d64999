#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compress/pipeline/pipeline.h"
#include "models/companion_files.h"

namespace nibble::compress {

using models::is_model_card;
using models::kModelCardFile;

/// What a card tells beside what the models show.
struct CardFacts {
  std::string recipe;                                     // its name
  std::string scheme;                                     // of most layers
  std::vector<std::pair<std::string, std::string>> rows;  // what and its value, in Markdown
  std::optional<MeasuredDamage> damage;
};

/// The card of a compressed model, in Markdown: recipe, size, measured damage where it is known,
/// and how the model is run. Before it stand, as Hugging Face reads them in YAML, the licence as
/// the original's card has it and the original's name where its folder tells.
std::string model_card(const models::Model& original, const models::Model& result,
                       const CardFacts& facts);

/// The same of what quantize makes.
std::string model_card(const models::Model& original, const models::Model& result,
                       const Recipe& recipe, const PipelineOptions& options);

}  // namespace nibble::compress
