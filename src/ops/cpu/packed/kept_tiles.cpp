#include "ops/cpu/packed/kept_tiles.h"

#include <algorithm>
#include <cstring>

#include "formats/block_sparse.h"
#include "ops/cpu/packed/tile_plan.h"
#include "ops/cpu/packed/tile_writer.h"
#include "ops/cpu/vector/scratch.h"

namespace nibble::ops::cpu {
namespace {

static_assert(formats::kPatternTile == kTileRows);

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kAliasing = 512;       // rows that far apart share sets of the L1 cache
constexpr std::int64_t kTokensTogether = 72;  // as many as panels pass
constexpr std::int64_t kFloat = sizeof(float);

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Groups of zeros behind `kept` ones.
std::int64_t padding_of(std::int64_t kept, std::int64_t group) {
  return group == kHalfUnit ? kept % 2 : 0;
}

/// Codes of some groups of one token side by side, `width` bytes each.
template <std::int64_t Width>
void gather_codes(const std::int8_t* from, std::int64_t stride,
                  std::span<const std::uint16_t> groups, std::int8_t* to) {
  for (const std::uint16_t group : groups) {
    std::memcpy(to, from + group * stride, Width);
    to += Width;
  }
}

void gather_codes(const std::int8_t* from, std::int64_t stride,
                  std::span<const std::uint16_t> groups, std::int64_t width, std::int8_t* to) {
  if (width == kHalfUnit) {
    return gather_codes<kHalfUnit>(from, stride, groups, to);
  }
  if (width == kUnit) {
    return gather_codes<kUnit>(from, stride, groups, to);
  }
  for (const std::uint16_t group : groups) {
    std::memcpy(to, from + group * stride, index(width));
    to += width;
  }
}

}  // namespace

KeptTiles::KeptTiles(const formats::PackedWeight& weight, std::int64_t group)
    : group_(group),
      group_inputs_(padded_group(group, kUnit)),
      stride_(padded_group(group, weight.k)),
      first_group_({0}),
      offsets_({0}) {
  const formats::Scheme scheme = formats::full_scheme(weight.scheme);
  plans_.resize(index(formats::groups_per_row(scheme, weight.k) + 2));
  for (std::int64_t row = 0; row < weight.n; row += kTileRows) {
    const auto [begin, end] = formats::stored_groups_of(weight, row);
    for (std::int64_t at = begin; at < end; ++at) {
      groups_.push_back(static_cast<std::uint16_t>(formats::stored_group(weight, at)));
    }
    first_group_.push_back(static_cast<std::int32_t>(end));
    const std::int64_t padded = end - begin + padding_of(end - begin, group);
    TiledWeight& plan = plans_[index(padded)];
    if (padded != 0 && plan.tile_bytes == 0) {
      plan = plan_tiles(scheme, kTileRows, padded * group, group, {});
    }
    offsets_.push_back(offsets_.back() + plan.tile_bytes);
  }
}

std::int64_t KeptTiles::tile_at(std::int64_t byte) const {
  return std::lower_bound(offsets_.begin(), offsets_.end() - 1, byte) - offsets_.begin();
}

std::span<const std::uint16_t> KeptTiles::groups_of(std::int64_t tile) const {
  const std::int32_t begin = first_group_[index(tile)];
  const std::int32_t end = first_group_[index(tile + 1)];
  return std::span(groups_).subspan(index(begin), index(end - begin));
}

void KeptTiles::write(const formats::PackedWeight& weight, std::int64_t tile,
                      std::byte* tiles) const {
  const std::int64_t kept = std::ssize(groups_of(tile));
  if (kept == 0) {
    return;
  }
  const std::int64_t padding = padding_of(kept, group_);
  const formats::PackedWeight columns = formats::kept_columns(weight, tile, padding);
  const WeightTables no_tables;
  TileWriter(columns, no_tables, plans_[index(kept + padding)], group_,
             tiles + offsets_[index(tile)])
      .write(0);
}

/// `padded`: groups with those of zeros behind them.
TiledInput KeptTiles::gather(const TiledInput& x, std::int64_t token, std::int64_t count,
                             std::span<const std::uint16_t> groups, std::int64_t padded) const {
  thread_local Scratch scratch;
  std::int64_t row_bytes = round_up(padded * group_inputs_, kLine);
  row_bytes += row_bytes % kAliasing == 0 ? kLine : 0;
  const std::int64_t rows = round_up(count, kTokenRows);
  const std::int64_t all = count * padded;
  float* const memory = scratch.floats(rows * row_bytes / kFloat + 2 * all);
  auto* const codes = reinterpret_cast<std::int8_t*>(memory);
  float* const scales = memory + rows * row_bytes / kFloat;
  auto* const sums = reinterpret_cast<std::int32_t*>(scales + all);
  const std::int64_t kept = std::ssize(groups);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = (token + i) * x.groups;
    gather_codes(x.codes + (token + i) * x.row_stride, stride_, groups, group_inputs_,
                 codes + i * row_bytes);
    float* const own_scales = scales + i * padded;
    std::int32_t* const own_sums = sums + i * padded;
    for (std::int64_t g = 0; g < kept; ++g) {
      own_scales[g] = x.scales[from + groups[index(g)]];
      own_sums[g] = x.sums[from + groups[index(g)]];
    }
    for (std::int64_t g = kept; g < padded; ++g) {
      std::memset(codes + i * row_bytes + g * group_inputs_, 0, index(group_inputs_));
      own_scales[g] = 0.0f;
      own_sums[g] = 0;
    }
  }
  return {count, codes, scales, sums, row_bytes, padded};
}

void KeptTiles::run(const Variant& variant, const std::uint8_t* tiles, const TiledInput& x,
                    std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy) const {
  for (std::int64_t tile = begin; tile < end; ++tile, y += kTileRows) {
    const std::span<const std::uint16_t> groups = groups_of(tile);
    const std::int64_t kept = std::ssize(groups);
    if (kept == 0) {
      for (std::int64_t token = 0; token < x.m; ++token) {
        std::fill_n(y + token * ldy, kTileRows, 0.0f);
      }
      continue;
    }
    const std::int64_t padded = kept + padding_of(kept, group_);
    TiledWeight weight = plans_[index(padded)];
    weight.tiles = tiles + offsets_[index(tile)];
    if (variant.run_kept != nullptr && group_ == kHalfUnit && x.m <= variant.direct_rows(group_)) {
      variant.run_kept(weight, x, {groups.data(), kept, stride_}, y, ldy);
      continue;
    }
    for (std::int64_t token = 0; token < x.m; token += kTokensTogether) {
      const std::int64_t count = std::min(kTokensTogether, x.m - token);
      variant.run(weight, gather(x, token, count, groups, padded), 0, 1, y + token * ldy, ldy);
    }
  }
}

}  // namespace nibble::ops::cpu
