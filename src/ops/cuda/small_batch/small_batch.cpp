#include "ops/cuda/small_batch/small_batch.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cuda/small_batch/launch.h"

namespace nibble::ops::cuda {
namespace {

// Tiles x units of a multiprocessor, up to which fewer warps are faster on an H200 where decoding
// is no work.
constexpr std::int64_t kSmallShare = 64;
constexpr int kSmallWarps = 8;

std::int64_t tiles_of(const UnitsView& weight) {
  return (weight.n + kTileRows - 1) / kTileRows;
}

std::optional<NormKind> kind_of(const NormWeights* norm) {
  return norm == nullptr ? std::nullopt : std::optional(norm->kind);
}

// Whole portions for all blocks, where the rows allow it.
std::int64_t blocks_of_portions(std::int64_t tiles, int multiprocessors) {
  const std::int64_t each = (tiles + multiprocessors - 1) / multiprocessors;
  const bool whole = each % kTiles == 0 && tiles % each == 0;
  return whole ? tiles / each : std::min<std::int64_t>(multiprocessors, tiles);
}

}  // namespace

std::int64_t max_small_batch(const UnitFormat& format, int digits) {
  return max_small_batch_columns(format.codes, format.groups, digits) * 8 / digits;
}

SmallBatchSchedule small_batch_schedule(const UnitsView& weight, int multiprocessors) {
  SmallBatchSchedule schedule;
  const std::int64_t tiles = tiles_of(weight);
  const CodeKind codes = weight.format.codes;
  const bool small = !is_book(codes) && !has_byte_codes(codes) &&
                     tiles * unit_grid(weight.n, weight.k).blocks <= kSmallShare * multiprocessors;
  schedule.warps = small ? kSmallWarps : small_batch_max_warps(codes);
  // Decoding planes is work: partial portions cost as much as whole ones.
  schedule.stages = has_planes(codes) ? 3 : 2;
  schedule.blocks =
      static_cast<int>(has_planes(codes) ? blocks_of_portions(tiles, multiprocessors)
                                         : std::min<std::int64_t>(multiprocessors, tiles));
  return schedule;
}

std::int64_t max_float_rows(const UnitsView& weight, std::optional<NormKind> norm) {
  constexpr std::int64_t kOneColumnGroup = 4;  // tokens of two digits in eight columns
  return norm.value_or(NormKind::kRms) == NormKind::kRms && weight.k % 4 == 0
             ? std::min(kOneColumnGroup, max_float_chunks() / unit_grid(weight.n, weight.k).blocks)
             : 0;
}

LayerArguments layer_arguments(const UnitsView& weight, const float* bias, int blocks) {
  LayerArguments a{};
  a.units = weight.units;
  a.tables = weight.tables;
  a.factors = weight.factors;
  a.bias = bias;
  a.n = static_cast<int>(weight.n);
  a.blocks = static_cast<int>(unit_grid(weight.n, weight.k).blocks);
  a.tiles_each = static_cast<int>(tiles_of(weight) / blocks);
  a.tiles_more = static_cast<int>(tiles_of(weight) % blocks);
  a.bf16_scales = weight.format.scales == ScaleKind::kBf16 ? 1 : 0;
  return a;
}

void small_batch(const SmallBatchProblem& problem, const SmallBatchSchedule& schedule,
                 cudaStream_t stream) {
  const UnitsView& weight = problem.weight;
  core::require(problem.m >= 1 && problem.m <= max_small_batch(weight.format, problem.x.digits),
                core::ErrorKind::kFailed, "{} tokens for a kernel of at most {}", problem.m,
                max_small_batch(weight.format, problem.x.digits));
  core::require(
      schedule.warps >= 1 && schedule.warps <= small_batch_max_warps(weight.format.codes) &&
          schedule.stages >= 2 && schedule.stages <= kSmallBatchMaxStages && schedule.blocks >= 1,
      core::ErrorKind::kFailed, "no kernel has {} blocks of {} warps with {} stages",
      schedule.blocks, schedule.warps, schedule.stages);
  require_unpaired({.y = problem.y, .half = problem.half, .adds = problem.add}, weight.n);
  SmallBatchArguments a{};
  a.layer = layer_arguments(weight, problem.bias, schedule.blocks);
  a.layer.by_blocks = Divisor(a.layer.blocks);
  a.layer.by_warps = Divisor(schedule.warps);
  if (problem.rows.x != nullptr) {
    const NormWeights* const norm = problem.rows.norm;
    core::require(problem.m <= max_float_rows(weight, kind_of(norm)), core::ErrorKind::kFailed,
                  "no kernel makes the activations of {} rows of {}", problem.m, weight.k);
    a.rows.x = problem.rows.x;
    a.rows.columns = static_cast<int>(weight.k);
    a.rows.order = problem.rows.order;
    if (norm != nullptr) {
      a.rows.weight = norm->weight;
      a.rows.eps = norm->eps;
    }
  }
  a.codes = problem.x.codes;
  a.scales = problem.x.scales;
  a.y = problem.y;
  a.m = static_cast<int>(problem.m);
  a.ldy = static_cast<int>(problem.ldy);
  a.scales_each = problem.x.scale_of_token ? 1 : a.layer.blocks;
  a.stages = schedule.stages;
  a.add = problem.add ? 1 : 0;
  a.half = problem.half;
  launch_small_batch(a, weight.format.codes, weight.format.groups, problem.x.digits, schedule,
                     stream);
}

}  // namespace nibble::ops::cuda
