#pragma once

#include <algorithm>

#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/tensor_map.h"
#include "ops/cuda/gemm/gemm_wgmma.cuh"
#include "ops/cuda/gemm/output_boxes.h"
#include "ops/cuda/gemm/ring.h"

namespace nibble::ops::cuda {

/// Whether results go through shared memory: where they have some of their own or a stage can be
/// spared for them, and the copy engine can write them. Blocks of a sum go that way sooner, and are
/// never its work: written at once they would cross the link in small pieces.
template <class Shape>
bool stages_results(const GemmArguments& a) {
  const int fewest = Shape::kOwnStaging ? 0 : a.output.in_blocks() ? 3 : 4;
  return Shape::kStaged.pays && a.ring.stages >= fewest &&
         (a.output.in_blocks() || copies_results(a));
}

/// Fills in how the work is cut, and launches.
template <class Codes, int kTokens, int kWarpgroups, int kCluster, Scaling kScaling,
          bool kDividesK = false>
void launch_wgmma(const GemmPlan& plan, GemmArguments arguments, cudaStream_t stream) {
  constexpr int kValueBytes = Codes::kSteps;  // INT8 or float16 inputs
  constexpr int kStripRowGroups = kWarpgroups * kCluster;
  using Shape = GemmShape<Codes, kTokens, kWarpgroups, kCluster, kScaling, kDividesK>;
  arguments.ring = ring_layout(Shape::kInputBytes, kWarpgroups * arguments.slot_bytes,
                               Shape::kScaleBytes, kSharedBytes - Shape::kStagingBytes);
  arguments.strips = (arguments.row_groups + kStripRowGroups - 1) / kStripRowGroups;
  arguments.token_tiles = (arguments.tokens + kTokens - 1) / kTokens;
  arguments.staged = stages_results<Shape>(arguments);
  const int tiles = arguments.strips * arguments.token_tiles;
  const int clusters = std::max(1, std::min(plan.blocks / Shape::kBlocks, tiles));

  const auto kernel = gemm_wgmma<Shape>;
  allow_shared_bytes(kernel, kSharedBytes);
  const CUtensorMap inputs =
      make_tensor_map({.data = arguments.inputs,
                       .value_bytes = kValueBytes,
                       .rows = arguments.tokens,
                       .columns = static_cast<std::int64_t>(arguments.units_along_k) * kUnitInputs,
                       .row_bytes = arguments.input_row_bytes,
                       .box_rows = kTokens / kCluster});

  const CUtensorMap outputs = arguments.boxed() ? output_map<Shape>(arguments) : CUtensorMap{};
  launch_clusters(kernel, dim3(static_cast<unsigned>(clusters * Shape::kBlocks)),
                  dim3(Shape::kThreads), Shape::kBlocks,
                  static_cast<std::size_t>(arguments.ring.bytes + Shape::kStagingBytes), stream,
                  arguments, inputs, outputs);
}

/// For the plan's cluster.
template <class Codes, int kTokens, int kWarpgroups, Scaling kScaling>
void launch_with_cluster(const GemmPlan& plan, const GemmArguments& arguments,
                         cudaStream_t stream) {
  if (plan.cluster == 2) {
    launch_wgmma<Codes, kTokens, kWarpgroups, 2, kScaling>(plan, arguments, stream);
  } else {
    launch_wgmma<Codes, kTokens, kWarpgroups, 1, kScaling>(plan, arguments, stream);
  }
}

/// For the plan's tiles of 128 rows.
template <class Codes, Scaling kScaling>
void launch_wide(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  switch (plan.token_tile) {
    case 32:
      return launch_with_cluster<Codes, 32, 2, kScaling>(plan, arguments, stream);
    case 64:
      return launch_with_cluster<Codes, 64, 2, kScaling>(plan, arguments, stream);
    case 128:
      return launch_with_cluster<Codes, 128, 2, kScaling>(plan, arguments, stream);
    default:
      return launch_with_cluster<Codes, 256, 2, kScaling>(plan, arguments, stream);
  }
}

/// For its tiles of 128 rows, and those of 192 rows and 64 tokens.
template <class Codes, Scaling kScaling>
void launch_tall_or_wide(const GemmPlan& plan, const GemmArguments& arguments,
                         cudaStream_t stream) {
  if (plan.row_tile == 192) {
    return launch_with_cluster<Codes, 64, 3, kScaling>(plan, arguments, stream);
  }
  launch_wide<Codes, kScaling>(plan, arguments, stream);
}

/// For its tiles of 128 rows whose k two blocks divide.
template <class Codes, Scaling kScaling>
void launch_divided(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  if (plan.token_tile == 64) {
    return launch_wgmma<Codes, 64, 2, 1, kScaling, true>(plan, arguments, stream);
  }
  launch_wgmma<Codes, 128, 2, 1, kScaling, true>(plan, arguments, stream);
}

/// Integers whose sums run over all of k: also taller tiles, and blocks that divide k.
template <class Codes>
void launch_integers_by_row(const GemmPlan& plan, const GemmArguments& arguments,
                            cudaStream_t stream) {
  if (plan.divides_k) {
    return launch_divided<Codes, Scaling::kByRow>(plan, arguments, stream);
  }
  if (plan.row_tile == 192 && plan.token_tile == 128) {
    return launch_wgmma<Codes, 128, 3, 1, Scaling::kByRow>(plan, arguments, stream);
  }
  if constexpr (Codes::kExpands) {
    launch_tall_or_wide<Codes, Scaling::kByRow>(plan, arguments, stream);
  } else {
    launch_wide<Codes, Scaling::kByRow>(plan, arguments, stream);
  }
}

/// For the plan's tiles of up to 128 tokens, whose sums and results both take registers.
template <class Codes, Scaling kScaling>
void launch_by_group(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  if (plan.token_tile == 64) {
    return plan.row_tile == 192
               ? launch_with_cluster<Codes, 64, 3, kScaling>(plan, arguments, stream)
               : launch_with_cluster<Codes, 64, 2, kScaling>(plan, arguments, stream);
  }
  return plan.row_tile == 192
             ? launch_with_cluster<Codes, 128, 3, kScaling>(plan, arguments, stream)
             : launch_with_cluster<Codes, 128, 2, kScaling>(plan, arguments, stream);
}

}  // namespace nibble::ops::cuda
