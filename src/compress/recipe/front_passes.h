#pragma once

#include <string_view>
#include <vector>

#include "compress/recipe/recipe.h"

namespace nibble::compress {

/// Takes the passes that words at the front of a preset's name ask for,
/// "shortgpt2-quarot-wanda24-", off it. What the others stand in front of is left; "f16" where the
/// name ends with them.
std::vector<RecipeStep> take_front_passes(std::string_view& name);

/// Puts each of the passes in front of those of `steps` that come behind it in every recipe.
void add_front_passes(std::vector<RecipeStep> passes, std::vector<RecipeStep>& steps);

}  // namespace nibble::compress
