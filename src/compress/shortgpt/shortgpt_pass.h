#pragma once

#include "compress/recipe/pass.h"

namespace nibble::compress {

/// "shortgpt": removes blocks of least influence before anything else happens
/// (without_least_influential()). Option blocks: how many.
extern const PassFactory kShortGptPass;

}  // namespace nibble::compress
