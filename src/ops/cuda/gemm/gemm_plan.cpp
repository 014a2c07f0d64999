#include <algorithm>
#include <limits>

#include "device/cuda_devices.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {
namespace {

// What a tile costs beside its products, in tokens: filling the pipeline and writing the results.
constexpr double kTileOverhead = 24.0;

// A model of the time: rounds of tiles that run at once, each as long as its tokens.
double time_of(const GemmPlan& plan, int rows, int tokens, int tile_rows) {
  const int strips = (rows + tile_rows * plan.cluster - 1) / (tile_rows * plan.cluster);
  const int tiles = strips * ((tokens + plan.token_tile - 1) / plan.token_tile);
  const int clusters = plan.blocks / plan.cluster;
  const int rounds = (tiles + clusters - 1) / clusters;
  const double alone = plan.cluster == 1 ? 1.08 : 1.0;  // reads all its tokens itself
  return rounds * (plan.token_tile * alone + kTileOverhead) * tile_rows;
}

}  // namespace

GemmPlan plan_gemm(const GemmWeights& weights, int tokens, bool scales_by_group) {
  static const device::CudaDevice device = device::require_cuda_device();
  GemmPlan best;
  best.wgmma = device.major == 9 && device.minor == 0;
  best.blocks = device.multiprocessors;
  const bool three_warpgroups = scales_by_group;
  double best_time = std::numeric_limits<double>::infinity();
  for (const int token_tile : {64, 128, 256}) {
    for (const int cluster : {1, 2}) {
      if (token_tile == 256 && scales_by_group) {
        continue;
      }
      GemmPlan plan = best;
      plan.token_tile = token_tile;
      plan.cluster = cluster;
      const double time = time_of(plan, weights.rows, tokens, three_warpgroups ? 192 : 128);
      if (time < best_time) {
        best_time = time;
        best = plan;
      }
    }
  }
  return best;
}

}  // namespace nibble::ops::cuda
