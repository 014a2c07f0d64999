#pragma once

#include <optional>
#include <string_view>

#include "compress/recipe/recipe.h"

namespace nibble::compress {

/// "gqsa-w4s50", "gqsa-w4a8g32s40-matrix", "gqsa-w4s50-t16", "gqsa-w4s50-s7" (scales of 7 bits),
/// "gqsa-any4s50" (a code book for each row), "gqsa-f16s50": one-shot GQSA, without its training.
/// The groups with the lowest saliency go, half of each row (or of the matrix, or the same ones of
/// each 16 rows); the others are rounded by GPTQ, to a book that any4 learns of them alone, or stay
/// float16. nullopt for other names. What books and floats do not come with is left to the rules of
/// recipes, which say why.
std::optional<Recipe> gqsa_preset(std::string_view name);

}  // namespace nibble::compress
