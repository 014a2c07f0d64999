#pragma once

#include "compress/recipe/recipe.h"

namespace nibble::compress {

/// Throws kUsage, with the reason, for a recipe that makes no sense: passes that are not in the
/// order of their stages, undo one another or cannot serve its schemes; not exactly one that
/// rounds; a scheme that needs a pass which is missing.
void validate(const Recipe& recipe);

}  // namespace nibble::compress
