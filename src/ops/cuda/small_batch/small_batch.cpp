#include "ops/cuda/small_batch/small_batch.h"

#include <algorithm>

#include "core/error.h"
#include "ops/cuda/small_batch/launch.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kKeptFloats = 8192;  // of sums that a block keeps for its cluster

std::int64_t tiles_of(const UnitsView& weight) {
  return (weight.n + kTileRows - 1) / kTileRows;
}

}  // namespace

std::int64_t max_small_batch(int digits) {
  return kSmallBatchTokens / digits;
}

SmallBatchSchedule small_batch_schedule(const UnitsView& weight, int multiprocessors) {
  SmallBatchSchedule schedule;
  schedule.stages = 4;  // one block fills a multiprocessor: two of them would leave others empty
  schedule.clusters = static_cast<int>(std::min<std::int64_t>(multiprocessors, tiles_of(weight)));
  return schedule;
}

void small_batch(const SmallBatchProblem& problem, const SmallBatchSchedule& schedule,
                 cudaStream_t stream) {
  const UnitsView& weight = problem.weight;
  core::require(problem.m >= 1 && problem.m <= max_small_batch(problem.x.digits),
                core::ErrorKind::kFailed, "{} tokens for a kernel of at most {}", problem.m,
                max_small_batch(problem.x.digits));
  core::require(schedule.warps >= 1 && schedule.warps <= kSmallBatchMaxWarps &&
                    schedule.stages >= 2 && schedule.stages <= kSmallBatchMaxStages &&
                    schedule.clusters >= 1 && schedule.cluster_size >= 1 &&
                    schedule.cluster_size <= 8,
                core::ErrorKind::kFailed, "no kernel has {} clusters of {} blocks of {} warps",
                schedule.clusters, schedule.cluster_size, schedule.warps);
  SmallBatchArguments a{};
  a.units = weight.units;
  a.tables = weight.tables;
  a.factors = weight.factors;
  a.codes = problem.x.codes;
  a.scales = problem.x.scales;
  a.bias = problem.bias;
  a.y = problem.y;
  a.n = static_cast<int>(weight.n);
  a.m = static_cast<int>(problem.m);
  a.blocks = static_cast<int>(unit_grid(weight.n, weight.k).blocks);
  a.tiles_each = static_cast<int>(tiles_of(weight) / schedule.clusters);
  a.tiles_more = static_cast<int>(tiles_of(weight) % schedule.clusters);
  a.ldy = static_cast<int>(problem.ldy);
  a.scales_each = problem.x.scale_of_token ? 1 : a.blocks;
  a.stages = schedule.stages;
  a.stage_tiles =
      static_cast<int>(std::min<std::int64_t>(a.tiles_each + (a.tiles_more > 0 ? 1 : 0), kTiles));
  if (schedule.cluster_size > 1) {
    const std::int64_t portions = a.tiles_each / kTiles + 2;
    a.kept = static_cast<int>(
        std::clamp<std::int64_t>(kKeptFloats / (kUnitRows * problem.m), 1, portions));
  }
  a.bf16_scales = weight.format.scales == ScaleKind::kBf16 ? 1 : 0;
  launch_small_batch(a, weight.format.codes, weight.format.groups, problem.x.digits, schedule,
                     stream);
}

}  // namespace nibble::ops::cuda
