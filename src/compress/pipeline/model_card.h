#pragma once

#include <string>
#include <string_view>

#include "compress/pipeline/pipeline.h"

namespace nibble::compress {

/// The file that Hugging Face folders describe a model in.
inline constexpr std::string_view kModelCardFile = "README.md";

/// Whether a file of that name is a model card, in whatever letters.
bool is_model_card(std::string_view name);

/// The card of a compressed model, in Markdown: recipe, size, measured damage where it is known,
/// and how the model is run. Before it stand, as Hugging Face reads them in YAML, the licence as
/// the original's card has it and the original's name where its folder tells.
std::string model_card(const models::Model& original, const models::Model& result,
                       const Recipe& recipe, const PipelineOptions& options);

}  // namespace nibble::compress
