#pragma once

#include <filesystem>
#include <string_view>

namespace nibble::models {

/// By what a tile file (engine/tile_file.h) is known: its name in the folder of a model, and its
/// first bytes.
inline constexpr std::string_view kTileFileName = "cpu-tiles.nibble";
inline constexpr std::string_view kTileFileMagic = "NIBTILES";

/// Whether a file begins like one. False for what is no readable regular file.
bool is_tile_file(const std::filesystem::path& path);

}  // namespace nibble::models
