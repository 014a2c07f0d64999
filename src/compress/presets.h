#pragma once

#include <optional>
#include <string_view>

#include "compress/recipe.h"

namespace nibble::compress {

/// The recipe of a preset's name as find_recipe() describes them, not yet checked; nullopt for a
/// name that is none.
std::optional<Recipe> preset(std::string_view name);

}  // namespace nibble::compress
