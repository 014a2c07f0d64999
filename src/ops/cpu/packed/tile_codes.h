#pragma once

#include <cstdint>

#include "ops/cpu/packed/tile_layout.h"

/// Single values of a tile, slowly. Not for files that are compiled for one instruction set (see
/// variants.h).
namespace nibble::ops::cpu {

/// Unsigned weight of lane byte `b` (row b / 4, input b % 4 of the quad) in a quad of a tile.
inline int weight_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t quad,
                     std::int64_t b) {
  const std::uint8_t* lines = tile + w.codes_offset;
  if (w.kind == CodeKind::kByte) {
    return lines[quad * kLineBytes + b];
  }
  const std::uint8_t byte = lines[quad / 2 * kLineBytes + b];
  const int code = quad % 2 == 0 ? byte & 15 : byte >> 4;
  switch (w.kind) {
    case CodeKind::kSharedTable:
      return w.table[code];
    case CodeKind::kRowTables:
      return tile[w.tables_offset + b / kQuad * 16 + code];
    default:
      return code;
  }
}

/// Zero point of row `r` of the tile.
inline int zero_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t group,
                   std::int64_t r) {
  return w.zeros_offset == 0 ? w.zero : tile[w.zeros_offset + group * kTileRows + r];
}

}  // namespace nibble::ops::cpu
