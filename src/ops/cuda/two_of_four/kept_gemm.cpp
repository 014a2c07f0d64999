#include "ops/cuda/two_of_four/kept_gemm.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "ops/cuda/gemm/gemm_launchers.h"
#include "ops/cuda/gemm/gemm_plan.h"
#include "ops/cuda/two_of_four/kept_launch.h"

namespace nibble::ops::cuda {
namespace {

// One warpgroup alone has nobody that multiplies while it reads weights.
constexpr double kOneWarpgroup = 1.15;

double time_of(const GemmPlan& plan, std::int64_t rows, int tokens) {
  const double alone = plan.row_tile == kKeptGroupRows ? kOneWarpgroup : 1.0;
  return time_of_rounds(plan, gemm_rounds(plan, rows, tokens)) * alone;
}

void require_plan(const GemmPlan& plan, const KeptForm& form) {
  const std::vector<GemmPlan> plans = kept_gemm_plans(form);
  const bool known = std::any_of(plans.begin(), plans.end(), [&](const GemmPlan& one) {
    return one.wgmma == plan.wgmma && one.row_tile == plan.row_tile &&
           one.token_tile == plan.token_tile && one.cluster == plan.cluster &&
           one.divides_k == plan.divides_k;
  });
  core::require(known, core::ErrorKind::kFailed,
                "gemm: no kernel of kept weights for tiles of {} x {} in {}", plan.row_tile,
                plan.token_tile, plan.cluster);
}

GemmArguments arguments_of(const KeptView& weight, bool integers) {
  const KeptForm& form = weight.form;
  core::require(form.integers == integers, core::ErrorKind::kFailed,
                "gemm: kept weights for {} products meet other inputs",
                form.integers ? "INT8" : "float16");
  GemmArguments arguments;
  arguments.units = reinterpret_cast<const std::uint8_t*>(weight.units);
  arguments.tile_bytes = form.bytes();
  arguments.slot_bytes = kKeptTiles * form.bytes();
  arguments.body_units = (weight.k + kKeptUnitInputs - 1) / kKeptUnitInputs;
  arguments.units_along_k = arguments.body_units;
  arguments.rows = weight.n;
  arguments.row_groups = (weight.n + kKeptGroupRows - 1) / kKeptGroupRows;
  return arguments;
}

}  // namespace

bool kept_gemm_runs() {
  return gemm_device().wgmma;
}

std::vector<GemmPlan> kept_gemm_plans(const KeptForm& form) {
  const GemmDevice device = gemm_device();
  if (!device.wgmma) {
    return {};
  }
  const int blocks = device.multiprocessors;
  std::vector<GemmPlan> plans = {{true, kKeptGroupRows, 64, 1, blocks},
                                 {true, 2 * kKeptGroupRows, 128, 1, blocks}};
  if (const int most = most_kept_tokens(form); most > 128) {
    plans.push_back({true, 2 * kKeptGroupRows, most, 2, blocks});
  }
  return plans;
}

GemmPlan kept_gemm_plan(const KeptForm& form, std::int64_t rows, int tokens) {
  GemmPlan best;
  double best_time = std::numeric_limits<double>::infinity();
  for (const GemmPlan& plan : kept_gemm_plans(form)) {
    const double time = time_of(plan, rows, tokens);
    if (time < best_time) {
      best = plan;
      best_time = time;
    }
  }
  return best;
}

void kept_gemm(const GemmPlan& plan, const KeptView& weight, const HalfInputs& inputs,
               const GemmOutput& output, cudaStream_t stream) {
  require_plan(plan, weight.form);
  launch_gemm(kept_gemm_launcher(weight.form), plan, arguments_of(weight, false), inputs, output,
              stream);
}

void kept_gemm(const GemmPlan& plan, const KeptView& weight, const Int8Inputs& inputs,
               const GemmOutput& output, cudaStream_t stream) {
  require_plan(plan, weight.form);
  core::require(inputs.group_stride == 0, core::ErrorKind::kFailed,
                "gemm: kept weights take one scale for each token");
  launch_gemm(kept_gemm_launcher(weight.form), plan, arguments_of(weight, true), inputs, output,
              stream);
}

}  // namespace nibble::ops::cuda
