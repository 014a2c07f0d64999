#pragma once

#include <filesystem>

namespace nibble::io {

/// The folder that holds `path` ("." for a bare name).
std::filesystem::path folder_of(const std::filesystem::path& path);

/// Waits until the folder's entries are on the disk. Throws kIo.
void sync_folder(const std::filesystem::path& folder);

/// Waits until all files and folders below `folder` are on the disk. Symbolic links are not
/// followed. Throws kIo.
void sync_tree(const std::filesystem::path& folder);

}  // namespace nibble::io
