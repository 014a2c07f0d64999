#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"

namespace nibble::tune {

/// The layers of `all` (from 0) that `count` layers begin as and learn from: layer i those of
/// (i + 1) all / count - 1, rounded down. Half of them are every other one, the last one among them
/// (the uniform mapping of TinyBERT, arXiv 1909.10351, section 3; Wu et al. 2023, arXiv
/// 2301.12017).
std::vector<std::int64_t> every_other_layer(std::int64_t all, std::int64_t count);

/// The model with these layers of its encoder alone, in this order, under the names that a model of
/// so many layers has; so are its config.json and its tensors. Everything else is as it was.
/// Throws kUsage for models that are not made of an encoder alone, and where the names of tensors
/// do not tell the layers apart.
models::Model with_layers(const models::Model& model, const std::vector<std::int64_t>& layers);

}  // namespace nibble::tune
