#include "ops/cpu/sparse/sparse_units.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "formats/row_unit.h"
#include "ops/cpu/sparse/stored_entries.h"
#include "ops/cpu/sparse/tile_units.h"

namespace nibble::ops::cpu {
namespace {

static_assert(formats::kPatternTile == kSparseTile);

using formats::PackedWeight;

constexpr std::int64_t kRowsPerTask = 16;
constexpr std::int64_t kFarthestPlace = 255;

/// Stored groups [begin, end), which fill one unit, or a part of it.
struct UnitGroups {
  std::int64_t begin;
  std::int64_t end;
};

/// Calls visit(UnitGroups) for each unit of a row.
template <class Visit>
void for_units(const PackedWeight& weight, std::int64_t row, std::int64_t entries,
               const Visit& visit) {
  const auto [begin, end] = formats::stored_groups_of(weight, row);
  for (std::int64_t first = begin; first < end;) {
    const std::int64_t base = formats::stored_group(weight, first);
    std::int64_t at = first + 1;
    while (at < end && at - first < entries &&
           formats::stored_group(weight, at) - base <= kFarthestPlace) {
      ++at;
    }
    visit(UnitGroups{first, at});
    first = at;
  }
}

/// Writes units of rows.
class UnitWriter {
 public:
  UnitWriter(const PackedWeight& weight, const SparseUnitLayout& layout, int held_bits)
      : weight_(weight), entries_(weight), layout_(layout), held_bits_(held_bits) {}

  /// `unit` is zero before.
  void write(const UnitGroups& groups, std::uint8_t* unit) const {
    const std::int64_t base = formats::stored_group(weight_, groups.begin);
    unit[layout_.base] = static_cast<std::uint8_t>(base);
    unit[layout_.base + 1] = static_cast<std::uint8_t>(base >> 8);
    for (int entry = 0; entry < layout_.entries; ++entry) {
      const std::int64_t at = std::min(groups.begin + entry, groups.end - 1);
      unit[entry] = static_cast<std::uint8_t>(formats::stored_group(weight_, at) - base);
      if (groups.begin + entry == at) {
        write_group(at, entry, unit);
      }
    }
  }

 private:
  void write_group(std::int64_t at, int entry, std::uint8_t* unit) const {
    if (weight_.scheme.scale.type == formats::ScaleType::kUnits) {
      unit[layout_.scales + entry] = entries_.unit_scale(at);
    } else {
      const std::uint16_t scale = entries_.half_scale(at);
      std::memcpy(unit + layout_.scales + std::ptrdiff_t{2} * entry, &scale, sizeof(scale));
    }
    set_zero(entry, entries_.zero(at), unit);
    const std::int64_t group = weight_.scheme.scale.group;
    for (std::int64_t i = 0; i < group; ++i) {
      set_code(entry * group + i, entries_.code(at, i), unit);
    }
  }

  void set_zero(int entry, int zero, std::uint8_t* unit) const {
    std::uint8_t* const zeros = unit + layout_.zeros;
    if (held_bits_ == 8) {
      zeros[entry] = static_cast<std::uint8_t>(zero);
      return;
    }
    const int half = layout_.entries / 2;
    zeros[entry % half] |= static_cast<std::uint8_t>(zero << (entry / half * 4));
  }

  void set_code(std::int64_t weight, int code, std::uint8_t* unit) const {
    const int piece = sparse_piece_of(static_cast<int>(weight_.scheme.scale.group));
    const std::int64_t lane = weight / piece % kSparseRowLanes;
    const std::int64_t vector =
        weight / piece / kSparseRowLanes * (piece / kSparseQuad) + weight % piece / kSparseQuad;
    const std::int64_t byte = lane * kSparseQuad + weight % kSparseQuad;
    std::uint8_t* const codes = unit + layout_.codes;
    if (held_bits_ == 8) {
      codes[vector * kSparseVector + byte] = static_cast<std::uint8_t>(code);
      return;
    }
    codes[vector / 2 * kSparseVector + byte] |= static_cast<std::uint8_t>(code << (vector % 2 * 4));
  }

  const PackedWeight& weight_;
  StoredEntries entries_;
  const SparseUnitLayout& layout_;
  int held_bits_;
};

/// Writes units of tiles.
class TileUnitWriter {
 public:
  TileUnitWriter(const PackedWeight& weight, const TileUnitLayout& layout, int held_bits)
      : weight_(weight), entries_(weight), layout_(layout), held_bits_(held_bits) {}

  /// Stored group `at`, of tile `tile`. `unit` is zero before.
  void write(std::int64_t at, std::int64_t tile, std::uint8_t* unit) const {
    for (int row = 0; row < kSparseTile; ++row) {
      const std::int64_t entry = formats::stored_entry(weight_, at, tile * kSparseTile + row);
      write_scale(entry, row, unit + layout_.scales);
      set_nibble(unit + layout_.zeros, row, row / kHalf, row % kHalf, entries_.zero(entry));
      for (int i = 0; i < weight_.scheme.scale.group; ++i) {
        const int quad = i / kSparseQuad;
        const int byte = row * kSparseQuad + i % kSparseQuad;
        set_nibble(unit, quad * kSparseTileLine + byte, quad % 2, quad / 2 * kSparseTileLine + byte,
                   entries_.code(entry, i));
      }
    }
  }

 private:
  static constexpr int kHalf = kSparseTile / 2;

  /// `whole`: the byte where there are bytes; else `half` (0 is the low one) of byte `shared`.
  void set_nibble(std::uint8_t* to, int whole, int half, int shared, int value) const {
    if (held_bits_ == 8) {
      to[whole] = static_cast<std::uint8_t>(value);
    } else {
      to[shared] |= static_cast<std::uint8_t>(value << (4 * half));
    }
  }

  void write_scale(std::int64_t entry, int row, std::uint8_t* scales) const {
    if (weight_.scheme.scale.type == formats::ScaleType::kUnits) {
      const float units = formats::scale_of_units(entries_.unit_scale(entry), 1.0f);
      scales[row] = static_cast<std::uint8_t>(static_cast<int>(units));
      return;
    }
    const std::uint16_t scale = entries_.half_scale(entry);
    std::memcpy(scales + std::ptrdiff_t{2} * row, &scale, sizeof(scale));
  }

  const PackedWeight& weight_;
  StoredEntries entries_;
  const TileUnitLayout& layout_;
  int held_bits_;
};

}  // namespace

SparseUnitLayout sparse_unit_layout(std::int64_t group, int held_bits, int scale_bytes) {
  return sparse_unit_layout_of(static_cast<int>(group), held_bits, scale_bytes);
}

SparseUnits SparseUnits::pack(const PackedWeight& weight, core::ThreadPool& pool) {
  const formats::Scheme& scheme = weight.scheme;
  core::require(formats::is_block_sparse(scheme) && formats::has_codes(scheme),
                core::ErrorKind::kFailed, "{} has no units of block-sparse rows", scheme);
  SparseUnits units;
  units.k_ = weight.k;
  units.rows_ = static_cast<int>(formats::pattern_rows(scheme));
  units.group_ = static_cast<int>(scheme.scale.group);
  units.held_bits_ = held_bits_of(scheme.code.bits);
  if (scheme.scale.type == formats::ScaleType::kUnits) {
    units.scale_bytes_ = 1;
    for (const std::uint8_t unit : weight.units.data<std::uint8_t>()) {
      units.row_units_.push_back(formats::unit_value(unit));
    }
  }
  if (formats::has_tile_pattern(scheme)) {
    units.pack_tiles(weight, pool);
  } else {
    units.pack_rows(weight, pool);
  }
  return units;
}

void SparseUnits::pack_rows(const PackedWeight& weight, core::ThreadPool& pool) {
  const SparseUnitLayout layout = sparse_unit_layout(group_, held_bits_, scale_bytes_);
  first_unit_.push_back(0);
  for (std::int64_t row = 0; row < weight.n; ++row) {
    std::int32_t count = first_unit_.back();
    for_units(weight, row, layout.entries, [&](const UnitGroups&) { ++count; });
    first_unit_.push_back(count);
  }
  memory_ = PageBuffer(std::int64_t{first_unit_.back()} * layout.bytes);
  const UnitWriter writer(weight, layout, held_bits_);
  auto* const memory = reinterpret_cast<std::uint8_t*>(memory_.data());
  pool.parallel_for(weight.n, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t unit = first_unit_[static_cast<std::size_t>(row)];
      for_units(weight, row, layout.entries, [&](const UnitGroups& groups) {
        writer.write(groups, memory + unit * layout.bytes);
        ++unit;
      });
    }
  });
}

void SparseUnits::pack_tiles(const PackedWeight& weight, core::ThreadPool& pool) {
  const TileUnitLayout layout = tile_unit_layout_of(group_, held_bits_, scale_bytes_);
  const auto ends = weight.row_index.data<std::int32_t>();
  first_unit_.assign(ends.begin(), ends.end());
  for (std::int64_t at = 0; at < formats::stored_group_count(weight); ++at) {
    groups_.push_back(static_cast<std::uint16_t>(formats::stored_group(weight, at)));
  }
  memory_ = PageBuffer(std::int64_t{first_unit_.back()} * layout.bytes);
  const TileUnitWriter writer(weight, layout, held_bits_);
  auto* const memory = reinterpret_cast<std::uint8_t*>(memory_.data());
  pool.parallel_for(n() / rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t tile = begin; tile < end; ++tile) {
      const auto [first, last] = formats::stored_groups_of(weight, tile * rows_);
      for (std::int64_t at = first; at < last; ++at) {
        writer.write(at, tile, memory + at * layout.bytes);
      }
    }
  });
}

SparseWeight SparseUnits::view() const {
  return {reinterpret_cast<const std::uint8_t*>(memory_.data()),
          first_unit_.data(),
          groups_.data(),
          row_units_.data(),
          rows_,
          group_,
          held_bits_,
          scale_bytes_};
}

}  // namespace nibble::ops::cpu
