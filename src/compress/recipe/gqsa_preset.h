#pragma once

#include <optional>
#include <string_view>

#include "compress/recipe/recipe.h"

namespace nibble::compress {

/// "gqsa-w4s50", "gqsa-w4a8g32s40-matrix", "gqsa-w4s50-t16", "gqsa-w4s50-s7" (scales of 7 bits),
/// "gqsa-f16s50": one-shot GQSA, without its training. The groups with the lowest saliency go, half
/// of each row (or of the matrix, or the same ones of each 16 rows); the others are rounded by
/// GPTQ, or stay float16. nullopt for other names. What floats do not come with is left to the
/// rules of recipes, which say why.
std::optional<Recipe> gqsa_preset(std::string_view name);

}  // namespace nibble::compress
