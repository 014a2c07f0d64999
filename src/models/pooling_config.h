#pragma once

#include <filesystem>
#include <optional>

#include "models/network.h"

namespace nibble::models {

/// How a folder of sentence-transformers makes embeddings: modules.json, and the config.json of its
/// pooling. Nothing where the folder is none. Throws kInvalidModel for modules that are not built
/// and for poolings other than by the first token, the mean or the maximum; kIo.
std::optional<Pooling> read_pooling(const std::filesystem::path& folder);

}  // namespace nibble::models
