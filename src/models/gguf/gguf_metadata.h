#pragma once

#include <string>
#include <vector>

#include "io/gguf_writer.h"
#include "models/model.h"

namespace nibble::models {

/// llama.cpp's name for what a model computes: llama, qwen2, qwen3, gpt2. Throws kInvalidModel for
/// models that llama.cpp has no architecture for, or computes otherwise (sliding windows, other
/// activations, YaRN), with the reason.
std::string gguf_architecture(const Model& model);

/// general.* and the sizes and constants of the architecture, without the tokenizer.
void add_metadata(const Model& model, const std::string& architecture, io::GgufKeys& keys);

/// What rotary frequencies are divided by ("rope_freqs.weight"), [head_dim / 2]; empty: nothing.
std::vector<float> rope_factors(const Model& model);

}  // namespace nibble::models
