#pragma once

#include <algorithm>

#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/tensor_map.h"
#include "ops/cuda/gemm/gemm_wgmma.cuh"

namespace nibble::ops::cuda {

inline constexpr int kSharedBytes = 227 * 1024;  // the most of a block on sm_90

/// Results as a matrix [tokens, columns].
inline TensorBoxes output_matrix(const GemmOutput& output, int rows, int tokens) {
  if (output.y != nullptr) {
    return {.data = output.y,
            .value_bytes = 4,
            .rows = tokens,
            .columns = rows,
            .row_bytes = 4 * output.stride};
  }
  return {.data = output.half.values,
          .value_bytes = 2,
          .rows = tokens,
          .columns = output.half.columns(rows),
          .row_bytes = 2 * output.half.stride};
}

/// Whether results go through shared memory: where a stage can be spared for them, and the copy
/// engine can write them. That writes 16 bytes at a time, also at the end of a row.
inline bool stages_results(const RingLayout& ring, const TensorBoxes& to) {
  constexpr int kFewestStages = 4;
  return ring.stages >= kFewestStages && reinterpret_cast<std::uintptr_t>(to.data) % 16 == 0 &&
         to.row_bytes % 16 == 0 && to.columns * to.value_bytes % 16 == 0;
}

/// The boxes of results.
template <class Shape>
CUtensorMap output_map(const GemmArguments& a) {
  const bool half = a.output.y == nullptr;
  TensorBoxes boxes = output_matrix(a.output, a.rows, a.tokens);
  boxes.box_rows = half ? Shape::kStaged.half_tokens : Shape::kStaged.float_tokens;
  boxes.box_bytes = half && a.output.half.pairs ? 64 : 128;
  return make_tensor_map(boxes);
}

/// Fills in how the work is cut, and launches.
template <class Codes, int kTokens, int kWarpgroups, int kCluster, Scaling kScaling>
void launch_wgmma(const GemmPlan& plan, GemmArguments arguments, cudaStream_t stream) {
  constexpr int kValueBytes = Codes::kSteps;  // INT8 or float16 inputs
  constexpr int kStripRowGroups = kWarpgroups * kCluster;
  using Shape = GemmShape<Codes, kTokens, kWarpgroups, kCluster, kScaling>;
  arguments.ring = ring_layout(Shape::kInputBytes, kWarpgroups * arguments.slot_bytes,
                               Shape::kScaleBytes, kSharedBytes);
  arguments.strips = (arguments.row_groups + kStripRowGroups - 1) / kStripRowGroups;
  arguments.token_tiles = (arguments.tokens + kTokens - 1) / kTokens;
  arguments.staged = Shape::kStaged.pays &&
                     stages_results(arguments.ring, output_matrix(arguments.output, arguments.rows,
                                                                  arguments.tokens));
  const int tiles = arguments.strips * arguments.token_tiles;
  const int clusters = std::max(1, std::min(plan.blocks / kCluster, tiles));

  const auto kernel = gemm_wgmma<Shape>;
  allow_shared_bytes(kernel, kSharedBytes);
  const CUtensorMap inputs =
      make_tensor_map({.data = arguments.inputs,
                       .value_bytes = kValueBytes,
                       .rows = arguments.tokens,
                       .columns = static_cast<std::int64_t>(arguments.units_along_k) * kUnitInputs,
                       .row_bytes = arguments.input_row_bytes,
                       .box_rows = kTokens / kCluster});

  const CUtensorMap outputs = arguments.staged ? output_map<Shape>(arguments) : CUtensorMap{};
  launch_clusters(kernel, dim3(static_cast<unsigned>(clusters * kCluster)), dim3(Shape::kThreads),
                  kCluster, static_cast<std::size_t>(arguments.ring.bytes), stream, arguments,
                  inputs, outputs);
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
