#pragma once

#include <algorithm>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/tensor_map.h"
#include "ops/cuda/gemm/output_boxes.h"
#include "ops/cuda/gemm/resident/gemm_resident.cuh"

namespace nibble::ops::cuda {

/// Fills in how the work is cut, and launches.
template <class Codes, int kTokens>
void launch_resident(const GemmPlan& plan, GemmArguments arguments, cudaStream_t stream) {
  using Shape = ResidentShape<Codes, kTokens>;
  arguments.strips = arguments.row_groups;
  arguments.token_tiles = (arguments.tokens + kTokens - 1) / kTokens;
  arguments.parts = resident_parts(arguments.strips, arguments.token_tiles, plan.blocks).count;
  arguments.staged = copies_results(arguments);
  const CUtensorMap inputs =
      make_tensor_map({.data = arguments.inputs,
                       .value_bytes = 1,
                       .rows = arguments.tokens,
                       .columns = static_cast<std::int64_t>(arguments.units_along_k) * kUnitInputs,
                       .row_bytes = arguments.input_row_bytes,
                       .box_rows = kTokens});
  const CUtensorMap outputs = arguments.staged ? output_map<Shape>(arguments) : CUtensorMap{};
  const auto kernel = gemm_resident<Shape>;
  allow_shared_bytes(kernel, kSharedBytes);
  const int blocks = std::max(1, std::min(plan.blocks, arguments.token_tiles * arguments.parts));
  launch_dependent(
      kernel, dim3(static_cast<unsigned>(blocks)), dim3(Shape::kThreads),
      static_cast<std::size_t>(
          resident_layout(kTokens, arguments.units_along_k, arguments.slot_bytes).bytes),
      stream, arguments, inputs, outputs);
}

/// For the plan's tokens.
template <class Codes>
void launch_resident(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  if (plan.token_tile == 128) {
    launch_resident<Codes, 128>(plan, arguments, stream);
  } else {
    launch_resident<Codes, 192>(plan, arguments, stream);
  }
}

}  // namespace nibble::ops::cuda
