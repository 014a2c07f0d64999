#pragma once

#include <map>
#include <string>

#include "compress/recipe/recipe.h"
#include "models/network.h"

namespace nibble::compress {

/// The rule that decides a layer's scheme; null when it is that of the recipe.
const LayerRule* rule_for(const Recipe& recipe, const std::string& layer);

/// The scheme of every layer that a recipe compresses: all linear layers of the blocks except the
/// routers of a mixture of experts and of the parts that stay as they are (Recipe::parts), where
/// passes may fit it to the layer's width (Pass::scheme_for), and blocks of 256 inputs make way for
/// blocks of 32 where rows are no multiple of that; and models::kOutputName when the
/// recipe rounds the output layer. Throws kUsage for an entry of Recipe::layers that decides no
/// layer, with the names that there are, and for a scheme that cannot hold its layer.
std::map<std::string, formats::Scheme> layer_schemes(const models::Network& network,
                                                     const Recipe& recipe);

}  // namespace nibble::compress
