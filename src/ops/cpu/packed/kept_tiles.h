#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/packed_weight.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/variants.h"

namespace nibble::ops::cpu {

/// The tiles of block-sparse rows of which each 16 keep the same groups (formats/block_sparse.h).
/// Each is a tile of tile_layout.h that has its kept groups alone, one behind the other. Where two
/// groups share a unit, one of zeros stands behind an odd number.
///
///   tile 0   | units | scales, zeros and lines of g1 g4 |          groups  1  4 (none)
///   tile 1   nothing                                                        |
///   tile 2   | units | scales, zeros and lines of g0 g3 g7 (zeros) |        0  3  7 (none)
///
/// Where a variant has loops for few tokens, they find the activations of each group where they lie
/// (Variant::run_kept). Else those that meet a tile are brought together, some tokens at a time, so
/// that every variant multiplies it as a tile of a dense weight with as many groups.
class KeptTiles {
 public:
  /// Plans the tiles of a weight, which has such a pattern. `group`: inputs of a group.
  KeptTiles(const formats::PackedWeight& weight, std::int64_t group);

  /// Of all tiles.
  std::int64_t bytes() const { return offsets_.back(); }

  /// The first tile that begins at `byte` or behind it; all tiles where there is none.
  std::int64_t tile_at(std::int64_t byte) const;

  /// Writes one tile of the weight into the memory of all tiles, which is zero before.
  void write(const formats::PackedWeight& weight, std::int64_t tile, std::byte* tiles) const;

  /// y[t, 16 (tile - begin) + row] for tiles [begin, end) and all tokens; rows ldy apart.
  void run(const Variant& variant, const std::uint8_t* tiles, const TiledInput& x,
           std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) const;

 private:
  std::span<const std::uint16_t> groups_of(std::int64_t tile) const;
  TiledInput gather(const TiledInput& x, std::int64_t token, std::int64_t count,
                    std::span<const std::uint16_t> groups, std::int64_t padded) const;

  std::int64_t group_;                     // inputs of a group
  std::int64_t group_inputs_;              // the same with padding, in a tile
  std::int64_t stride_;                    // the same in the activations
  std::vector<std::uint16_t> groups_;      // of one tile after another
  std::vector<std::int32_t> first_group_;  // [tiles + 1], in groups_
  std::vector<std::int64_t> offsets_;      // [tiles + 1], bytes
  std::vector<TiledWeight> plans_;         // of tiles with so many groups, or groups of zeros
};

}  // namespace nibble::ops::cpu
