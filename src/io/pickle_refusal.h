#pragma once

#include <filesystem>

namespace nibble::io {

/// Throws kInvalidModel when the name says that the file is a PyTorch pickle (.bin, .pt, .pth,
/// .ckpt): reading one runs the code it holds. The message has the command that converts it.
void refuse_pickle(const std::filesystem::path& path);

/// The same for the first such file of a model folder.
void refuse_pickles_in(const std::filesystem::path& folder);

}  // namespace nibble::io
