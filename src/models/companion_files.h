#pragma once

#include <filesystem>

#include "models/model.h"

namespace nibble::models {

/// The file that Hugging Face folders describe a model in.
inline constexpr std::string_view kModelCardFile = "README.md";

/// Whether a file of that name is a model card, in whatever letters.
bool is_model_card(std::string_view name);

/// Copies what lies beside a model's weights (tokenizer, generation config, licence, folders of
/// sentence-transformers) into another folder, or writes it where it lies in a GGUF file. Weights,
/// configurations of them and the model card, which tells of another model, stay.
void copy_companions(const Model& model, const std::filesystem::path& folder);

}  // namespace nibble::models
