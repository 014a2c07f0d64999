#pragma once

#include <filesystem>
#include <memory>

#include "models/model.h"

namespace nibble::cli {

/// As models::open_model; what is not as the model's files have it is said in notes.
std::shared_ptr<models::Model> open_model(
    const std::filesystem::path& path,
    models::StoredLayers stored = models::StoredLayers::kAsTheyAre);

/// The same for what starts from an original model (quantize, compare, tune-strategy): layers in
/// the blocks of a GGUF file are decoded.
std::shared_ptr<models::Model> open_original(const std::filesystem::path& path);

}  // namespace nibble::cli
