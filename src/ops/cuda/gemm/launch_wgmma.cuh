#pragma once

#include <algorithm>

#include <cuda_runtime.h>

#include "device/cuda/check.h"
#include "ops/cuda/device_code/tensor_map.h"
#include "ops/cuda/gemm/gemm_wgmma.cuh"

namespace nibble::ops::cuda {

inline constexpr int kSharedBytes = 227 * 1024;  // the most of a block on sm_90

/// Fills in how the work is cut, and launches.
template <class Codes, int kTokens, int kWarpgroups, int kCluster, Scaling kScaling>
void launch_wgmma(const GemmPlan& plan, GemmArguments arguments, cudaStream_t stream) {
  constexpr int kValueBytes = Codes::kSteps;  // INT8 or float16 inputs
  constexpr int kStripRowGroups = kWarpgroups * kCluster;
  using Kernel = GemmTraits<Codes, kTokens, kScaling>;
  arguments.ring = ring_layout(Kernel::kInputBytes, kWarpgroups * arguments.slot_bytes,
                               Kernel::kScaleBytes, kSharedBytes);
  arguments.strips = (arguments.row_groups + kStripRowGroups - 1) / kStripRowGroups;
  arguments.token_tiles = (arguments.tokens + kTokens - 1) / kTokens;
  const int tiles = arguments.strips * arguments.token_tiles;
  const int clusters = std::max(1, std::min(plan.blocks / kCluster, tiles));

  const auto kernel = gemm_wgmma<Codes, kTokens, kWarpgroups, kCluster, kScaling>;
  static const cudaError_t allowed = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  device::cuda::check(allowed, "cudaFuncSetAttribute");
  const CUtensorMap inputs = make_tensor_map(
      {.data = arguments.inputs,
       .value_bytes = kValueBytes,
       .rows = arguments.tokens,
       .columns = static_cast<std::int64_t>(arguments.units_along_k) * kGemmUnitColumns,
       .row_bytes = arguments.input_row_bytes,
       .box_rows = kTokens / kCluster});

  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * kCluster));
  config.blockDim = dim3(gemm_threads(kWarpgroups));
  config.dynamicSmemBytes = static_cast<std::size_t>(arguments.ring.bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  device::cuda::check(cudaLaunchKernelEx(&config, kernel, arguments, inputs), "cudaLaunchKernelEx");
}

/// For the plan's tile of tokens, up to kMostTokens, and its cluster.
template <class Codes, int kMostTokens, int kWarpgroups, Scaling kScaling>
void launch_planned(const GemmPlan& plan, const GemmArguments& arguments, cudaStream_t stream) {
  const auto with_cluster = [&]<int kTokens>() {
    if (plan.cluster == 2) {
      launch_wgmma<Codes, kTokens, kWarpgroups, 2, kScaling>(plan, arguments, stream);
    } else {
      launch_wgmma<Codes, kTokens, kWarpgroups, 1, kScaling>(plan, arguments, stream);
    }
  };
  if (plan.token_tile == 64) {
    with_cluster.template operator()<64>();
  } else if (plan.token_tile == 128 || kMostTokens == 128) {
    with_cluster.template operator()<128>();
  } else {
    with_cluster.template operator()<kMostTokens>();
  }
}

}  // namespace nibble::ops::cuda
