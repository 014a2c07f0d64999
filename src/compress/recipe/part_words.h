#pragma once

#include <optional>
#include <string_view>

#include "compress/recipe/recipe.h"
#include "formats/scheme.h"
#include "models/layer_part.h"

namespace nibble::compress {

/// The scheme of "w8a8", "w4a8", "w4a4" and the like, with what shares a scale of the weights and
/// "-asym" behind them where wanted: "w4a4g128-asym" is int4-asym-g128-a4-asym. Without these,
/// symmetric rows. Activations have a range for each token, or one stored scale with an s behind
/// their bits ("w8a8s"). nullopt for other words.
std::optional<formats::Scheme> parse_weights_and_activations(std::string_view text);

/// The scheme of a part's type: such a word, or a scheme with codes; nullopt for "float". `what`
/// names it in messages ("part 'qkv'"). Throws kUsage for anything else.
std::optional<formats::Scheme> parse_type(std::string_view type, std::string_view what);

/// What --quantize-parts says: parts separated by commas, each with its type behind a '=': "float",
/// such a word or a scheme. A part without a type has the recipe's scheme; one that is not named
/// stays float. Throws kUsage for what is none of this, and for a part that is named twice.
models::PartSchemes parse_part_schemes(std::string_view text, const Recipe& recipe);

/// Whether every part in it has a type, so that the recipe's scheme plays no role.
bool every_part_has_type(std::string_view text);

}  // namespace nibble::compress
