#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/float16.h"
#include "formats/scheme.h"
#include "ops/cpu/packed/packed_linear.h"
#include "ops/cpu/packed/tile_plan.h"
#include "ops/cpu/packed/tile_writer.h"
#include "ops/cpu/packed/zero_points.h"

namespace nibble::ops::cpu {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kLine = 64;
constexpr std::int64_t kSizeLimit = std::int64_t{1} << 31;

/// plan_tiles() for sizes that nobody has checked.
TiledWeight checked_layout(const PackedWeight& weight, const WeightTables& tables,
                           const InputNeeds& needs) {
  core::require(has_layout(weight.scheme), core::ErrorKind::kFailed,
                "a weight of {} x {} in {} has no packed layout", weight.n, weight.k,
                weight.scheme);
  core::require(weight.n >= 1 && weight.k >= 1 && weight.n < kSizeLimit && weight.k < kSizeLimit,
                core::ErrorKind::kInvalidModel,
                "a weight of {} x {} cannot be packed: sizes must be in [1, 2^31)", weight.n,
                weight.k);
  const TiledWeight tiled = plan_tiles(weight.scheme, weight.n, weight.k, needs.group, tables);
  core::require(tiled.tile_count <= std::numeric_limits<std::int64_t>::max() / 2 / tiled.tile_bytes,
                core::ErrorKind::kOutOfMemory, "a weight of {} x {} is too large to pack", weight.n,
                weight.k);
  return tiled;
}

bool has_row_tables(const PackedWeight& weight) {
  return kind_of(weight.scheme) == CodeKind::kRowTables;
}

/// weight_tables() but for books of rows, which take long.
WeightTables shared_tables(const PackedWeight& weight) {
  return has_row_tables(weight) ? WeightTables() : weight_tables(weight);
}

std::int64_t sums_of(const TiledWeight& tiled, const InputNeeds& needs) {
  return needs.activation.carries_zeros() ? tiled.tile_count * tiled.groups * kTileRows : 0;
}

/// Whether a whole row of integers is summed before the sum is scaled.
bool sums_whole_rows(const formats::Scheme& scheme, std::int64_t k) {
  return k > kMaxGroup && k <= kMaxRow && !scheme.activation.is_float() &&
         !formats::has_minima(scheme);
}

/// Inputs that share all scales: of the weights, and of the activations where those have groups of
/// their own. One divides the other (formats::validate), so the smaller one serves.
std::int64_t layout_group(const formats::Scheme& scheme, std::int64_t k) {
  const std::int64_t weights = formats::group_size(scheme, k);
  const std::int64_t activations = scheme.activation.group;
  const bool finer = activations != 0 && activations < weights;
  const std::int64_t group = finer ? activations : weights;
  const bool whole_row = !finer && scheme.scale.group == 0;
  if (whole_row && sums_whole_rows(scheme, formats::head_inputs(scheme, k))) {
    return formats::head_inputs(scheme, k);
  }
  if (group <= kMaxGroup && (!whole_row || group <= kUnit)) {
    return group;
  }
  // Longer groups are cut. A row may end in a short group; other groups need an exact divisor.
  // Activations that are rounded here have a range for each group: shorter ones are more accurate.
  const std::int64_t longest = whole_row && !scheme.activation.is_float() ? kMaxGroup : 128;
  for (const std::int64_t size : {kMaxGroup, std::int64_t{128}, std::int64_t{64}, kUnit}) {
    if (size <= longest && group % size == 0) {
      return size;
    }
  }
  return whole_row || group >= formats::head_inputs(scheme, k) ? 128
                                                               : std::gcd(group, std::int64_t{128});
}

}  // namespace

bool has_layout(const formats::Scheme& scheme) {
  return (formats::is_integer(scheme) || formats::has_book(scheme)) &&
         !formats::is_block_sparse(scheme);
}

InputNeeds input_needs(const formats::Scheme& scheme, std::int64_t k) {
  InputNeeds needs;
  needs.transform = InputTransform(scheme, k);
  needs.tail = scheme.inputs.tail;
  needs.group = layout_group(scheme, k);
  if (scheme.activation.is_float()) {
    needs.activation.group = needs.group;
  } else {
    needs.activation = scheme.activation;
    if (scheme.activation.group >= formats::head_inputs(scheme, k)) {
      needs.activation.group = 0;
    }
  }
  return needs;
}

InputNeeds tail_needs(std::int64_t tail) {
  return input_needs(formats::tail_scheme(), tail);
}

void PackedLinear::read_needs(const PackedWeight& weight) {
  needs_ = input_needs(weight.scheme, weight.k);
  needs_.transform = InputTransform(weight);
  if (weight.scheme.activation.stored_scale) {
    needs_.scale = formats::input_scale_of(weight);
  }
}

PackedLinear PackedLinear::pack(const PackedWeight& weight, core::ThreadPool& pool) {
  PackedLinear linear = pack_head(formats::head_of(weight), pool);
  linear.read_needs(weight);
  if (weight.scheme.inputs.tail != 0) {
    linear.tail_ = std::make_unique<PackedLinear>(pack_head(formats::tail_of(weight), pool));
  }
  return linear;
}

PackedLinear PackedLinear::pack_head(const PackedWeight& weight, core::ThreadPool& pool) {
  PackedLinear linear;
  linear.k_ = weight.k;
  linear.needs_ = input_needs(weight.scheme, weight.k);
  const WeightTables tables = weight_tables(weight);
  linear.tiled_ = checked_layout(weight, tables, linear.needs_);
  TiledWeight& tiled = linear.tiled_;
  linear.memory_ = PageBuffer(linear.tile_bytes());
  tiled.tiles = reinterpret_cast<const std::uint8_t*>(linear.memory_.data());
  const auto write = [&](std::int64_t begin, std::int64_t end) {
    TileWriter writer(weight, tables, tiled, linear.needs_.group, linear.memory_.data());
    for (std::int64_t tile = begin; tile < end; ++tile) {
      writer.write(tile);
    }
  };
  pool.parallel_for(tiled.tile_count, 1 + tiled.tile_count / (std::int64_t{8} * pool.size()),
                    write);
  if (linear.needs_.activation.carries_zeros()) {
    linear.sums_memory_ = cpu::weight_sums(tiled, linear.needs_.group, weight.k);
    linear.sums_ = linear.sums_memory_;
  }
  return linear;
}

void PackedLinear::run(const Variant& variant, const TiledInput& x, std::int64_t begin,
                       std::int64_t end, float* y, std::int64_t ldy, const float* bias) const {
  TiledWeight tiles = tiled_;
  tiles.tiles += begin * tiles.tile_bytes;
  tiles.n = std::min(tiles.n, end * kTileRows) - begin * kTileRows;
  tiles.tile_count = end - begin;
  tiles.bias = bias == nullptr ? nullptr : bias + begin * kTileRows;
  variant.run(tiles, x, 0, tiles.tile_count, y, ldy);
}

PackedBytes PackedLinear::stored() const {
  return {
      {reinterpret_cast<const std::byte*>(tiled_.tiles), static_cast<std::size_t>(tile_bytes())},
      sums_,
      tiled_.zero,
      tiled_.largest};
}

PackedPlan packed_plan(const PackedWeight& weight) {
  const InputNeeds needs = input_needs(weight.scheme, weight.k);
  const TiledWeight tiled = checked_layout(weight, shared_tables(weight), needs);
  PackedPlan plan{tiled.tile_count * tiled.tile_bytes, sums_of(tiled, needs), std::nullopt};
  if (!has_row_tables(weight)) {
    plan.range = PackedRange{tiled.zero, tiled.largest};
  }
  return plan;
}

PackedRange packed_range(const PackedWeight& weight) {
  const TiledWeight tiled =
      checked_layout(weight, weight_tables(weight), input_needs(weight.scheme, weight.k));
  return {tiled.zero, tiled.largest};
}

PackedLinear PackedLinear::view(const PackedWeight& weight, const PackedBytes& head,
                                const PackedBytes& tail, std::shared_ptr<const void> owner) {
  PackedLinear linear = view_head(formats::head_of(weight), head, owner);
  linear.read_needs(weight);
  if (weight.scheme.inputs.tail != 0) {
    linear.tail_ =
        std::make_unique<PackedLinear>(view_head(formats::tail_of(weight), tail, std::move(owner)));
  }
  return linear;
}

PackedLinear PackedLinear::view_head(const PackedWeight& weight, const PackedBytes& bytes,
                                     std::shared_ptr<const void> owner) {
  PackedLinear linear;
  linear.k_ = weight.k;
  linear.needs_ = input_needs(weight.scheme, weight.k);
  WeightTables tables = shared_tables(weight);
  if (has_row_tables(weight)) {  // theirs are in the tiles
    tables.zero = bytes.zero;
    tables.largest = bytes.largest;
  }
  linear.tiled_ = checked_layout(weight, tables, linear.needs_);
  core::require(std::cmp_equal(bytes.tiles.size(), linear.tile_bytes()) &&
                    std::cmp_equal(bytes.sums.size(), sums_of(linear.tiled_, linear.needs_)) &&
                    reinterpret_cast<std::uintptr_t>(bytes.tiles.data()) % kLine == 0 &&
                    bytes.zero == linear.tiled_.zero && bytes.largest == linear.tiled_.largest,
                core::ErrorKind::kIntegrity,
                "{} bytes of tiles are not the layout of a weight of {} x {} in {}",
                bytes.tiles.size(), weight.n, weight.k, weight.scheme);
  linear.tiled_.tiles = reinterpret_cast<const std::uint8_t*>(bytes.tiles.data());
  linear.sums_ = bytes.sums;
  linear.owner_ = std::move(owner);
  return linear;
}

}  // namespace nibble::ops::cpu
