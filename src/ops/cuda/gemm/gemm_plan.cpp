#include <limits>

#include "device/cuda_devices.h"
#include "ops/cuda/gemm/gemm.h"

namespace nibble::ops::cuda {
namespace {

// What a tile costs beside its products, in tokens: filling the pipeline and writing the results.
constexpr double kTileOverhead = 24.0;

// A model of the time: rounds of tiles that run at once, each as long as its tokens.
double time_of(const GemmPlan& plan, int rows, int tokens) {
  const int rows_at_once = plan.row_tile * plan.cluster;
  const int tiles =
      (rows + rows_at_once - 1) / rows_at_once * ((tokens + plan.token_tile - 1) / plan.token_tile);
  const int clusters = plan.blocks / plan.cluster;
  const int rounds = (tiles + clusters - 1) / clusters;
  return rounds * (plan.token_tile + kTileOverhead) * plan.row_tile;
}

}  // namespace

std::vector<GemmPlan> gemm_plans(bool scales_by_group) {
  static const device::CudaDevice device = device::require_cuda_device();
  std::vector<GemmPlan> plans;
  if (device.major == 9 && device.minor == 0) {
    for (const int row_tile : {128, 192}) {
      for (const int token_tile : {32, 64, 128, 256}) {
        for (const int cluster : {1, 2}) {
          if (scales_by_group ? token_tile == 64 || token_tile == 128 : row_tile == 128) {
            plans.push_back({true, row_tile, token_tile, cluster, device.multiprocessors});
          }
        }
      }
    }
  }
  plans.push_back({.blocks = device.multiprocessors});
  return plans;
}

GemmPlan plan_gemm(int rows, int tokens, bool scales_by_group) {
  GemmPlan best;
  double best_time = std::numeric_limits<double>::infinity();
  for (const GemmPlan& plan : gemm_plans(scales_by_group)) {
    const double time = time_of(plan, rows, tokens);
    if (time < best_time && (plan.wgmma || !best.wgmma)) {
      best_time = time;
      best = plan;
    }
  }
  return best;
}

}  // namespace nibble::ops::cuda
