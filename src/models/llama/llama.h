#pragma once

#include "models/config_reader.h"
#include "models/family.h"

/// Llama 1/2/3 (arXiv 2302.13971, 2407.21783) and the families that differ from it by
/// configuration: Mistral (sliding window), Qwen2 (query/key/value biases), Qwen3 (QK norm),
/// SmolLM.
namespace nibble::models::llama {

Family llama();
Family mistral();
Family qwen2();
Family qwen3();

/// What other families share with Llama: all but the MLP.
NetworkConfig read_attention_config(const core::Json& json);
TensorNames attention_names();

/// The window of each layer: layer_types where it is given, else sliding_window for all layers from
/// `first` on.
std::vector<std::int64_t> read_windows(const ConfigReader& reader, std::int64_t layers,
                                       std::int64_t first);

}  // namespace nibble::models::llama
