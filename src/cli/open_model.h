#pragma once

#include <filesystem>
#include <memory>

#include "models/model.h"

namespace nibble::cli {

/// As models::open_model; what is not as the model's files have it is said in notes.
std::shared_ptr<models::Model> open_model(const std::filesystem::path& path);

}  // namespace nibble::cli
