#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/medium_batch/copy.cuh"
#include "ops/cuda/medium_batch/multiply.cuh"

/// A block of threads passes over k for up to kRowGroups row groups of its cluster's share at a
/// time. The first weights are on their way before the kernel before has ended.
namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Shape>
__device__ __forceinline__ void init_barriers(const MediumBatchStages<Shape>& stages,
                                              const CUtensorMap& inputs) {
  if (threadIdx.x == 0) {  // by one thread: fences of several take a microsecond
    prefetch_map(inputs);
    const int readers = 4 * stages.row_groups();
    auto place = stages.first_place();
    while (place.parity == 0) {
      init_barrier(place.full(), Shape::kFullArrivals);
      init_barrier(place.empty(), readers);
      stages.step(place, 1);
    }
    for (int group = 0; group < Shape::kRowGroups; ++group) {
      init_barrier(stages.totals_full(group), 4 * Shape::kPartners);
      init_barrier(stages.totals_empty(group), 4 * Shape::kPartners);
    }
    publish_barriers();
  }
  __syncthreads();
  if constexpr (Shape::kCluster > 1) {
    arrive_at_cluster();
  }
}

template <class Shape>
__device__ __forceinline__ void run_medium_batch(const MediumBatchArguments& a,
                                                 const CUtensorMap& inputs) {
  extern __shared__ __align__(1024) std::uint8_t medium_batch_memory[];
  std::uint32_t memory = shared_address(medium_batch_memory);
  settle(memory);  // or it would be computed again and again
  const MediumBatchStages<Shape> stages{a, memory};
  init_barriers(stages, inputs);
  launch_dependents();
  const int copying_warp = static_cast<int>(threadIdx.x) / 32 - 4 * Shape::kWarpgroups;
  if (copying_warp < 0) {
    set_registers<Shape::kWarpgroups == 2 ? 216 : 104, true>();
    wait_for_predecessor();
    // By a shuffle, so that the compiler knows that a warp goes one way.
    if (__shfl_sync(~0u, stages.row_group(), 0) < stages.row_groups()) {
      MediumBatchMultiply<Shape>(stages).run();
    }
  } else {
    set_registers<40, false>();
    if (copying_warp == 0 && stages.lane() == 0) {
      MediumBatchCopy<Shape>(stages).copy_weights();  // which nobody writes
    }
    if (copying_warp == 1 && stages.lane() == 0) {
      wait_for_predecessor();
      MediumBatchCopy<Shape>(stages).copy_inputs(inputs);
    }
    if (copying_warp == 2 && Shape::kHasScales) {
      wait_for_predecessor();
      MediumBatchCopy<Shape>(stages).copy_scales();
    }
  }
}

#endif

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    medium_batch_kernel(const __grid_constant__ MediumBatchArguments arguments,
                        const __grid_constant__ CUtensorMap inputs) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  run_medium_batch<Shape>(arguments, inputs);
#endif
}

}  // namespace nibble::ops::cuda
