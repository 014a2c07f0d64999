#include "ops/cuda/gemm/gemm_plan.h"

#include <limits>

#include "device/cuda_devices.h"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/resident/resident_shape.h"

namespace nibble::ops::cuda {
namespace {

// What a tile costs beside its products, in tokens: waiting for its first units, writing its
// results, and what the stages of the ring cost whatever their size.
constexpr double kTileOverhead = 90.0;
// And beside a strip of rows whose inputs stay, whose results are written behind the next strip's
// products: so the rest takes less, too.
constexpr double kStripOverhead = 77.0;
constexpr double kHidingResults = 0.8;

// Two blocks of a cluster read less, but wait for one another. On an H200 that pays where many
// large tiles follow one another.
double cost_of_reading_alone(const GemmPlan& plan, bool by_group, std::int64_t rounds) {
  const bool large = by_group ? plan.row_tile == 128 && plan.token_tile == 128
                              : plan.token_tile == 256 && rounds > 1;
  return large ? 1.03 : 0.97;
}

// The same where inputs stay: parts of strips, one after the other.
double time_of_resident(const GemmPlan& plan, const GemmWeights& weights, int tokens) {
  const auto strips = static_cast<int>(unit_grid(weights.units.n, weights.units.k).row_groups);
  const int token_tiles = (tokens + plan.token_tile - 1) / plan.token_tile;
  const ResidentParts parts = resident_parts(strips, token_tiles, plan.blocks);
  return kHidingResults * parts.time * (plan.token_tile + kStripOverhead) * plan.row_tile;
}

// Two blocks that divide k take half of a tile's time, and some for their sums, whatever k is: as
// long as a thousand tokens of one unit. Weights of 8 bits keep less of the gain: more comes
// through the L2 cache.
double time_of_divided(const GemmPlan& plan, std::int64_t rounds, std::int64_t units,
                       bool eight_bits) {
  const double sums = 1000.0 / static_cast<double>(units) * plan.row_tile;
  return time_of_rounds(plan, rounds) / 2 * (eight_bits ? 1.15 : 1.0) +
         static_cast<double>(rounds) * sums;
}

// Whose products are the same however k is divided.
bool sums_rows_of_integers(const GemmWeights& weights, GemmInputs inputs) {
  return inputs == GemmInputs::kInt8 && weights.row_scale && !is_book(weights.units.format.codes) &&
         !has_planes(weights.units.format.codes);
}

double time_of(const GemmPlan& plan, const GemmWeights& weights, GemmInputs inputs, int tokens) {
  if (plan.keeps_inputs()) {
    return time_of_resident(plan, weights, tokens);
  }
  const bool by_group = scales_by_group(weights, inputs);
  const std::int64_t rounds = gemm_rounds(plan, weights.units.n, tokens);
  const bool eight_bits = weights.units.format.bits() == 8;
  if (plan.divides_k) {
    return time_of_divided(plan, rounds, unit_grid(weights.units.n, weights.units.k).blocks,
                           eight_bits);
  }
  double time = time_of_rounds(plan, rounds);
  if (plan.row_tile == 192 && plan.token_tile == 128 && !by_group) {
    return time * (eight_bits ? 1.08 : 0.88);  // weights of 8 bits leave results no memory
  }
  if (plan.token_tile == 256 && rounds == 1 && weights.units.k >= 2048 &&
      sums_rows_of_integers(weights, inputs)) {
    time *= 1.2;  // nothing hides the ends of tiles that all blocks end at once
  }
  if (plan.cluster == 1) {
    time *= cost_of_reading_alone(plan, by_group, rounds);
  }
  if (by_group && plan.row_tile == 128) {
    time *= 1.06;  // two warpgroups hide less than three
  }
  if (inputs == GemmInputs::kHalf && eight_bits && plan.token_tile == 256) {
    time *= 1.3;  // the ring has two stages only
  }
  return time;
}

}  // namespace

GemmDevice gemm_device() {
  return of_current_device([] {
    return GemmDevice{device::current_cuda_device().multiprocessors, wgmma_runs()};
  });
}

std::int64_t gemm_rounds(const GemmPlan& plan, std::int64_t rows, int tokens) {
  const std::int64_t rows_at_once =
      std::int64_t{plan.row_tile} * (plan.divides_k ? 1 : plan.cluster);
  const std::int64_t strips = (rows + rows_at_once - 1) / rows_at_once;
  const std::int64_t tiles = strips * ((tokens + plan.token_tile - 1) / plan.token_tile);
  const std::int64_t at_once = plan.blocks / plan.cluster;
  return (tiles + at_once - 1) / at_once;
}

double time_of_rounds(const GemmPlan& plan, std::int64_t rounds) {
  return static_cast<double>(rounds) * (plan.token_tile + kTileOverhead) * plan.row_tile;
}

bool gemm_has_tile(const GemmWeights& weights, GemmInputs inputs, int row_tile, int token_tile) {
  if (row_tile == kUnitRows) {
    return inputs == GemmInputs::kInt8 && weights.row_scale &&
           fits_resident(token_tile, weights.units.k,
                         static_cast<int>(weights.units.format.bytes())) &&
           (token_tile == 128 || token_tile == 192);
  }
  const CodeKind codes = weights.units.format.codes;
  if (scales_by_group(weights, inputs)) {
    return (row_tile == 128 || (row_tile == 192 && !is_book(codes))) &&
           (token_tile == 64 || token_tile == 128);
  }
  if (has_planes(codes)) {  // fewer kernels to compile
    return row_tile == 128 && (token_tile == 64 || token_tile == 128 || token_tile == 256);
  }
  const bool tall = bits_of(codes) == 4 && !is_book(codes);
  return row_tile == 128
             ? token_tile == 32 || token_tile == 64 || token_tile == 128 || token_tile == 256
             : row_tile == 192 && ((tall && token_tile == 64) ||
                                   (token_tile == 128 && sums_rows_of_integers(weights, inputs)));
}

bool gemm_divides_k(const GemmWeights& weights, GemmInputs inputs, int row_tile, int token_tile) {
  const CodeKind codes = weights.units.format.codes;
  const bool half_from_int4 = inputs == GemmInputs::kHalf && bits_of(codes) == 4 && !is_book(codes);
  return row_tile == 128 && (token_tile == 64 || token_tile == 128) &&
         (half_from_int4 || sums_rows_of_integers(weights, inputs)) &&
         unit_grid(weights.units.n, weights.units.k).blocks >= 2;
}

int gemm_most_in_cluster(const GemmWeights& weights, GemmInputs inputs, int row_tile,
                         int token_tile) {
  const bool alone = row_tile == kUnitRows || has_planes(weights.units.format.codes) ||
                     (row_tile == 192 && token_tile == 128 && !scales_by_group(weights, inputs));
  return alone ? 1 : 2;
}

std::vector<GemmPlan> gemm_plans(const GemmWeights& weights, GemmInputs inputs) {
  const GemmDevice device = gemm_device();
  std::vector<GemmPlan> plans;
  if (device.wgmma) {
    for (const int row_tile : {64, 128, 192}) {
      for (const int token_tile : {32, 64, 128, 192, 256}) {
        if (!gemm_has_tile(weights, inputs, row_tile, token_tile)) {
          continue;
        }
        const int most = gemm_most_in_cluster(weights, inputs, row_tile, token_tile);
        for (int cluster = 1; cluster <= most; ++cluster) {
          plans.push_back({true, row_tile, token_tile, cluster, device.multiprocessors});
        }
        if (gemm_divides_k(weights, inputs, row_tile, token_tile)) {
          plans.push_back({true, row_tile, token_tile, 2, device.multiprocessors, true});
        }
      }
    }
  }
  plans.push_back({.blocks = device.multiprocessors});
  return plans;
}

GemmPlan plan_gemm(const GemmWeights& weights, GemmInputs inputs, int tokens) {
  GemmPlan best;
  double best_time = std::numeric_limits<double>::infinity();
  for (const GemmPlan& plan : gemm_plans(weights, inputs)) {
    const double time = time_of(plan, weights, inputs, tokens);
    if (time < best_time && (plan.wgmma || !best.wgmma)) {
      best_time = time;
      best = plan;
    }
  }
  return best;
}

}  // namespace nibble::ops::cuda
