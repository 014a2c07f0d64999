#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace nibble::tune {

/// How many layers a student has.
struct LayerCounts {
  std::int64_t encoder = 0;  // 0: as many as the model
  std::int64_t decoder = 0;

  bool any() const { return encoder > 0 || decoder > 0; }
};

/// The layers of a model that a student begins as and learns from, by their numbers (from 0).
struct KeptLayers {
  std::vector<std::int64_t> encoder;
  std::vector<std::int64_t> decoder;
};

/// The layers of `all` that `count` layers begin as and learn from: layer i those of
/// (i + 1) all / count - 1, rounded down. Half of them are every other one, the last one among them
/// (the uniform mapping of TinyBERT, arXiv 1909.10351, section 3; Wu et al. 2023, arXiv
/// 2301.12017). Throws kUsage, naming `option`, where there are not so many.
std::vector<std::int64_t> every_other_layer(std::int64_t all, std::int64_t count,
                                            std::string_view option);

/// Those of each stack. Throws kUsage where a stack is not there, or has fewer layers.
KeptLayers every_other_layer(const models::Network& network, const LayerCounts& counts);

/// The numbers of these layers among all blocks of the model that they are of
/// (models::all_blocks).
std::vector<std::int64_t> among_all_blocks(const KeptLayers& layers,
                                           const models::Network& network);

/// The model with these layers alone, in this order, under the names that a model of so many layers
/// has; so are its config.json and its tensors. Everything else is as it was. Throws kUsage for
/// decoders whose layers have several kinds of attention (sliding windows), and where the names of
/// tensors do not tell the layers apart.
models::Model with_layers(const models::Model& model, const KeptLayers& layers);

/// "6", or "6-3" of an encoder and a decoder: how many there are.
std::string layers_of(const models::Network& network);

}  // namespace nibble::tune
