#include "ops/cpu/sparse/tiles/tile_unit_writer.h"

#include <cstddef>
#include <cstring>

#include "formats/block_sparse.h"
#include "ops/cpu/sparse/held_codes.h"

namespace nibble::ops::cpu {
namespace {

static_assert(formats::kPatternTile == kSparseTile);

constexpr int kHalf = kSparseTile / 2;

}  // namespace

void TileUnitWriter::write(std::int64_t at, std::int64_t tile, std::uint8_t* unit) const {
  for (int row = 0; row < kSparseTile; ++row) {
    const std::int64_t entry = formats::stored_entry(weight_, at, tile * kSparseTile + row);
    write_scale(entry, row, unit + layout_.scales);
    set_held(unit + layout_.zeros, held_bits_, row, row % kHalf, row / kHalf, entries_.zero(entry));
    for (int i = 0; i < weight_.scheme.scale.group; ++i) {
      const int quad = i / kSparseQuad;
      const int byte = row * kSparseQuad + i % kSparseQuad;
      set_held(unit, held_bits_, quad * kSparseTileLine + byte, quad / 2 * kSparseTileLine + byte,
               quad % 2, entries_.code(entry, i));
    }
  }
}

void TileUnitWriter::write_scale(std::int64_t entry, int row, std::uint8_t* scales) const {
  if (weight_.scheme.scale.type == formats::ScaleType::kUnits) {
    scales[row] = static_cast<std::uint8_t>(entries_.whole_scale(entry));
    return;
  }
  const std::uint16_t scale = entries_.half_scale(entry);
  std::memcpy(scales + std::ptrdiff_t{2} * row, &scale, sizeof(scale));
}

}  // namespace nibble::ops::cpu
