#include "ops/cuda/sparse/tile_packer.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr int kMostBits = 4;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 16;
constexpr int kLanes = 32;
constexpr int kQuads = 4;     // of a block's inputs
constexpr int kHalfTile = 8;  // rows
constexpr int kNibbleBits = 4;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// One tile's weights.
class TileWriter {
 public:
  TileWriter(const PackedWeight& weight, std::int64_t row)
      : weight_(weight),
        row_(row),
        bits_(weight.scheme.code.bits),
        blocks_of_group_(weight.scheme.scale.group / kTileBlock) {}

  /// Block `part` of stored group `at`, as block `block` of the unit. `empty`: with scale 0.
  void write(std::int64_t at, std::int64_t part, std::int64_t block, bool empty,
             std::byte* unit) const {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const std::int64_t quad = lane % kQuads;
      const std::int64_t upper = entry(at, lane / kQuads);
      const std::int64_t lower = entry(at, lane / kQuads + kHalfTile);
      std::uint32_t word = 0;
      for (int i = 0; i < kQuads; ++i) {
        const std::int64_t input = part * kTileBlock + quad * kQuads + i;
        const int shift = i % 2 * 16 + i / 2 * 2 * kNibbleBits;
        word |= code(upper, input) << shift | code(lower, input) << (shift + kNibbleBits);
      }
      std::memcpy(unit + (lane * kUnitBlocks + block) * 4, &word, sizeof(word));
      if (quad == block) {
        const std::uint32_t scales =
            empty ? 0
                  : scale(at, lane / kQuads) |
                        static_cast<std::uint32_t>(scale(at, lane / kQuads + kHalfTile)) << 16;
        std::memcpy(unit + kTileUnitScales + lane * 4, &scales, sizeof(scales));
        unit[kTileUnitZeros + lane] =
            static_cast<std::byte>(zero(upper) | zero(lower) << kNibbleBits);
      }
    }
    const auto place =
        static_cast<std::uint16_t>(formats::stored_group(weight_, at) * blocks_of_group_ + part);
    std::memcpy(unit + kTileUnitPlaces + block * 2, &place, sizeof(place));
  }

 private:
  std::int64_t entry(std::int64_t at, std::int64_t row) const {
    return formats::stored_entry(weight_, at, row_ + row);
  }
  std::uint32_t code(std::int64_t entry, std::int64_t input) const {
    const std::int64_t bytes = weight_.codes.dim(1);
    return formats::get_code(weight_.codes.data<std::uint8_t>().data() + entry * bytes, bits_,
                             input);
  }
  std::uint16_t scale(std::int64_t at, std::int64_t row) const {
    return formats::stored_scale(weight_, entry(at, row), row_ + row).bits;
  }
  unsigned zero(std::int64_t entry) const {
    return formats::has_zeros(weight_.scheme)
               ? formats::get_code(weight_.zeros.data<std::uint8_t>().data(), bits_, entry)
               : 1u << (bits_ - 1);
  }

  const PackedWeight& weight_;
  std::int64_t row_;
  int bits_;
  std::int64_t blocks_of_group_;
};

std::int64_t blocks_of(const PackedWeight& weight, std::int64_t row) {
  const auto [begin, end] = formats::stored_groups_of(weight, row);
  return (end - begin) * weight.scheme.scale.group / kTileBlock;
}

void write_tile(const PackedWeight& weight, std::int64_t row, std::byte* units) {
  const TileWriter writer(weight, row);
  const std::int64_t first = formats::stored_groups_of(weight, row).begin;
  const std::int64_t count = blocks_of(weight, row);
  const std::int64_t each = weight.scheme.scale.group / kTileBlock;
  for (std::int64_t i = 0; i < (count + kUnitBlocks - 1) / kUnitBlocks * kUnitBlocks; ++i) {
    const std::int64_t block = std::min(i, count - 1);
    writer.write(first + block / each, block % each, i % kUnitBlocks, i >= count,
                 units + i / kUnitBlocks * kTileUnitBytes);
  }
}

}  // namespace

Refusal tile_units_refusal(const formats::Scheme& scheme, std::int64_t k) {
  if (!formats::has_tile_pattern(scheme)) {
    return Reason("rows do not keep the same groups in tiles");
  }
  if (!scheme.activation.is_float()) {
    return Reason("activations are rounded");
  }
  if (scheme.code.bits > kMostBits) {
    return Reason("codes of {} bits; it takes up to {}", std::int64_t{scheme.code.bits},
                  std::int64_t{kMostBits});
  }
  if (scheme.scale.group % kTileBlock != 0) {
    return Reason("groups of {} inputs; it takes 16, 32 and 64", scheme.scale.group);
  }
  if (k > kMostBlocks * kTileBlock) {
    return Reason("rows of {} inputs; it takes up to {}", k, kMostBlocks * kTileBlock);
  }
  return std::nullopt;
}

PackedTiles pack_tiles(const UnitRows& rows, core::ThreadPool& pool) {
  const PackedWeight& front = *rows.weights.front();
  if (const Refusal refused = tile_units_refusal(front.scheme, front.k)) {
    core::fail(core::ErrorKind::kUsage, "{} on a GPU: {}; use --device cpu", front.scheme,
               refused->text());
  }
  PackedTiles packed;
  packed.n = rows.count();
  packed.k = front.k;
  packed.pairs = rows.pairs;
  const std::int64_t tiles = packed.n / kTileBlock;
  packed.first_units.resize(index(tiles + 1));
  const auto place = [&](std::int64_t tile) {
    return rows.place(tile_rows(static_cast<int>(tile), rows.pairs).first);
  };
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const UnitRows::Place at = place(tile);
    const std::int64_t blocks = blocks_of(*rows.weights[at.weight], at.row);
    packed.first_units[index(tile + 1)] =
        packed.first_units[index(tile)] +
        static_cast<std::int32_t>((blocks + kUnitBlocks - 1) / kUnitBlocks);
  }
  packed.units.resize(index(packed.first_units.back() * kTileUnitBytes));
  pool.parallel_for(tiles, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const UnitRows::Place at = place(tile);
      write_tile(*rows.weights[at.weight], at.row,
                 packed.units.data() + packed.first_units[index(tile)] * kTileUnitBytes);
    }
  });
  return packed;
}

}  // namespace nibble::ops::cuda
