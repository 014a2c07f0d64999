#pragma once

#include <cstdint>

#include "formats/packed_weight.h"
#include "ops/cpu/sparse/stored_entries.h"
#include "ops/cpu/sparse/tiles/tile_units.h"

namespace nibble::ops::cpu {

/// Writes units of tiles (tile_units.h).
class TileUnitWriter {
 public:
  /// `weight` must stay where it is.
  TileUnitWriter(const formats::PackedWeight& weight, const TileUnitLayout& layout, int held_bits)
      : weight_(weight), entries_(weight), layout_(layout), held_bits_(held_bits) {}

  /// Stored group `at`, of tile `tile`. `unit` is zero before.
  void write(std::int64_t at, std::int64_t tile, std::uint8_t* unit) const;

 private:
  void write_scale(std::int64_t entry, int row, std::uint8_t* scales) const;

  const formats::PackedWeight& weight_;
  StoredEntries entries_;
  TileUnitLayout layout_;
  int held_bits_;
};

}  // namespace nibble::ops::cpu
