#include "ops/cpu/packed/tile_plan.h"

#include <bit>

#include "core/float16.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kAlignment = 32;  // of a vector of float16 scales

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

CodeKind kind_of(const formats::Scheme& scheme) {
  if (formats::is_integer(scheme)) {
    return CodeKind::kInteger;
  }
  return scheme.code.book == formats::Book::kPerRow ? CodeKind::kRowTables : CodeKind::kSharedTable;
}

TiledWeight plan_tiles(const formats::Scheme& scheme, std::int64_t n, std::int64_t k,
                       std::int64_t group, const WeightTables& tables) {
  TiledWeight tiled;
  tiled.n = n;
  tiled.tile_count = (n + kTileRows - 1) / kTileRows;
  tiled.groups = (k + group - 1) / group;
  tiled.group_inputs = padded_group(group, k);
  tiled.kind = kind_of(scheme);
  tiled.bits = scheme.code.bits;
  tiled.two_of_four = formats::keeps_two_of_four(scheme);
  const bool asymmetric = formats::is_integer(scheme) && formats::has_zeros(scheme);
  if (formats::is_integer(scheme)) {
    tiled.zero = asymmetric || formats::has_minima(scheme) ? 0 : 1 << (scheme.code.bits - 1);
    tiled.largest = (1 << scheme.code.bits) - 1;
  } else {
    tiled.zero = tables.zero;
    tiled.largest = tables.largest;
  }
  std::int64_t offset = kTileRows * static_cast<std::int64_t>(sizeof(float));
  if (tiled.kind == CodeKind::kRowTables) {
    tiled.tables_offset = offset;
    offset += kTileRows * tiled.table_size();
  }
  const auto place = [&offset](std::int64_t rows, std::size_t size) {
    const std::int64_t at = offset;
    offset += round_up(rows * kTileRows * static_cast<std::int64_t>(size), kAlignment);
    return at;
  };
  const bool multiples = formats::has_supers(scheme);
  const std::size_t size = multiples ? sizeof(std::int8_t) : sizeof(core::Fp16);
  const std::int64_t of_super = multiples ? formats::kSuperGroup / group : 1;
  tiled.super_shift = std::countr_zero(static_cast<std::uint64_t>(of_super));
  const std::int64_t supers = (tiled.groups + of_super - 1) / of_super;
  tiled.scales_offset = place(tiled.groups, size);
  if (multiples) {
    tiled.supers_offset = place(supers, sizeof(core::Fp16));
  }
  if (asymmetric) {
    tiled.zeros_offset = place(tiled.groups, sizeof(std::uint8_t));
  }
  if (formats::has_minima(scheme)) {
    tiled.minima_offset = place(tiled.groups, size);
    tiled.min_supers_offset = multiples ? place(supers, sizeof(core::Fp16)) : 0;
  }
  tiled.codes_offset = round_up(offset, kLine);
  tiled.tile_bytes = tiled.codes_offset + tiled.groups * tiled.group_bytes();
  if (tiled.kind == CodeKind::kSharedTable) {
    for (std::size_t i = 0; i < 16; ++i) {
      tiled.table[i] = static_cast<std::uint8_t>(tables.rows[0].entries[i] + tables.zero);
    }
  }
  return tiled;
}

}  // namespace nibble::ops::cpu
