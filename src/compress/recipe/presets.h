#pragma once

#include <optional>
#include <string_view>

#include "compress/recipe/recipe.h"

namespace nibble::compress {

/// The recipe that a preset's name means (find_recipe lists them), or nullopt.
std::optional<Recipe> find_preset(std::string_view name);

/// The name of the pass that gives weights the stored scale of their inputs.
inline constexpr const char* kInputScalesPass = "static-activations";

/// The preset that `name` was most likely meant to be, in its own group size; empty: there is none.
std::string nearest_preset(std::string_view name);

}  // namespace nibble::compress
