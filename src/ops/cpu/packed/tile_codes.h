#pragma once

#include <cstdint>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/packed/tile_layout.h"

/// Single values of a tile, slowly. Not for files that are compiled for one instruction set (see
/// variants.h).
namespace nibble::ops::cpu {

/// Zero point of row `r` of the tile.
inline int zero_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t group,
                   std::int64_t r) {
  return w.zeros_offset == 0 ? w.zero : tile[w.zeros_offset + group * kTileRows + r];
}

/// code_at() where two codes of each quad are stored.
inline int kept_code_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t quad,
                        std::int64_t b) {
  const std::int64_t row = b / kQuad;
  const int input = static_cast<int>(b % kQuad);
  const std::int64_t in_unit = quad % kUnitQuads;
  const std::int64_t line = in_unit / 2;  // of codes, of 8 bits
  const std::uint8_t* unit = tile + w.codes_offset + quad / kUnitQuads * kept_unit_bytes(w.bits);
  const int indices = unit[row * kQuad + line] >> in_unit % 2 * 4 & 15;
  const int zero = zero_at(w, tile, quad * kQuad / w.group_inputs, row);
  if (input != (indices & 3) && input != indices >> 2) {
    return zero;
  }
  const std::int64_t second = input == (indices & 3) ? 0 : 1;
  const std::uint8_t* codes = unit + kLineBytes + row * kQuad + in_unit % 2 * 2 + second;
  const int code =
      w.bits == 8 ? codes[line * kLineBytes] : codes[line / 2 * kLineBytes] >> line % 2 * 4 & 15;
  return code ^ zero;
}

/// Code of lane byte `b` (row b / 4, input b % 4 of the quad) in a quad of a tile.
inline int code_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t quad,
                   std::int64_t b) {
  if (w.two_of_four) {
    return kept_code_at(w, tile, quad, b);
  }
  const auto line = [&](std::int64_t at) -> int {
    return tile[w.codes_offset + at * kLineBytes + b];
  };
  switch (w.bits) {
    case 2:
      return line(quad / 4) >> quad % 4 * 2 & 3;
    case 3: {
      const std::int64_t first = quad / kUnitQuads * 3;
      const std::int64_t in_unit = quad % kUnitQuads;
      if (in_unit < 6) {
        return line(first + in_unit / 2) >> in_unit % 2 * 3 & 7;
      }
      return line(first + in_unit - 6) >> 6 | (line(first + 2) >> in_unit & 1) << 2;
    }
    case 4:
      return line(quad / 2) >> quad % 2 * 4 & 15;
    default:
      return line(quad);
  }
}

/// Unsigned weight of the same place.
inline int weight_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t quad,
                     std::int64_t b) {
  const int code = code_at(w, tile, quad, b);
  switch (w.kind) {
    case CodeKind::kSharedTable:
      return w.table[code];
    case CodeKind::kRowTables:
      return tile[w.tables_offset + b / kQuad * w.table_size() + code];
    default:
      return code;
  }
}

/// A scale or minimum of row `r`: f16 at `offset`, or i8 times what stands at `supers`.
inline float block_scale_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t offset,
                            std::int64_t supers, std::int64_t group, std::int64_t r) {
  const auto half_at = [&](std::int64_t from, std::int64_t i) {
    core::Fp16 half;
    std::memcpy(&half.bits, tile + from + (i * kTileRows + r) * 2, sizeof(half.bits));
    return core::to_float(half);
  };
  if (w.supers_offset == 0) {
    return half_at(offset, group);
  }
  const auto multiple = static_cast<std::int8_t>(tile[offset + group * kTileRows + r]);
  return static_cast<float>(multiple) * half_at(supers, group >> w.super_shift);
}

/// Scale of row `r` of the tile, without the row's unit.
inline float scale_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t group,
                      std::int64_t r) {
  return block_scale_at(w, tile, w.scales_offset, w.supers_offset, group, r);
}

/// Minimum of row `r`, which must have some.
inline float minimum_at(const TiledWeight& w, const std::uint8_t* tile, std::int64_t group,
                        std::int64_t r) {
  return block_scale_at(w, tile, w.minima_offset, w.min_supers_offset, group, r);
}

}  // namespace nibble::ops::cpu
