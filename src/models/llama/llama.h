#pragma once

#include "models/family.h"

/// Llama 1/2/3 (arXiv 2302.13971, 2407.21783) and the families that differ from it by
/// configuration: Mistral (sliding window), Qwen2 (query/key/value biases), Qwen3 (QK norm),
/// SmolLM.
namespace nibble::models::llama {

Family llama();
Family mistral();
Family qwen2();
Family qwen3();

/// Parts that mixtures of experts share with Llama.
NetworkConfig read_attention_config(const core::Json& json);
Block build_attention(const NetworkConfig& config, std::int64_t layer, bool qkv_bias, bool out_bias,
                      WeightLoader& loader);
Network build_ends(const NetworkConfig& config, WeightLoader& loader);
void finish(Network& model, WeightLoader& loader);

}  // namespace nibble::models::llama
