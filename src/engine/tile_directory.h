#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "io/fingerprint.h"
#include "models/network.h"
#include "ops/cpu/packed/packed_linear.h"

/// The directory of a tile file (tile_file.h) as the model prescribes it.
namespace nibble::engine {

inline constexpr std::int64_t kTileFileHeader = 32;      // bytes before the directory
inline constexpr std::int64_t kFirstTiles = 2 << 20;     // border of the first tiles
inline constexpr std::int64_t kMatrixBorder = 4096;      // and of all others
inline constexpr std::int64_t kMaxDirectory = 64 << 20;  // bytes

/// One matrix; offsets from the first tiles.
struct TileSlot {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int64_t sums_offset = 0;
  std::int64_t sums_bytes = 0;
  std::optional<ops::cpu::PackedRange> range;  // told by the file where rows have own tables
};

struct TiledLayer {
  const ops::Linear* layer = nullptr;
  std::vector<TileSlot> slots;  // head, and tail where there is one
};

struct TileDirectory {
  std::vector<TiledLayer> layers;
  std::int64_t end = 0;  // of the last matrix, from the first tiles
};

/// All layers that have a layout (ops::cpu::has_layout) with their places.
TileDirectory plan_directory(const models::Network& network);

/// The matrix of a slot: the head of a layer's weight, or its tail.
formats::PackedWeight matrix_of(const ops::Linear& layer, std::size_t slot);

core::Json layer_to_json(const TiledLayer& layer);
core::Json to_json(const io::Fingerprint& print);

/// Throws kInvalidModel, `what` naming the file.
io::Fingerprint parse_fingerprint(const core::Json& json, std::string_view what);

/// Takes ranges that are not known from the file's own list of layers, and compares everything else
/// with it. Throws kInvalidModel when it is malformed; false when it is not that of the model.
bool complete_directory(TileDirectory& directory, const core::Json& layers, std::string_view what);

/// The first multiple of `unit` from `value` on.
constexpr std::int64_t border(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace nibble::engine
