#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/device_code/wgmma.cuh"
#include "ops/cuda/gemm/resident/resident_copy.cuh"
#include "ops/cuda/gemm/resident/resident_products.cuh"

/// The kernel for sm_90a, short rows and many tokens: all inputs of a tile of tokens lie in shared
/// memory, and strips of 64 rows of the weights go by. Two warpgroups take turns: while one
/// multiplies, the other writes the results of its strip. So products of rows of 768 hide what
/// their results cost. A third one copies.
namespace nibble::ops::cuda {

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    gemm_resident(const __grid_constant__ GemmArguments arguments,
                  const __grid_constant__ CUtensorMap inputs,
                  const __grid_constant__ CUtensorMap outputs) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::uint8_t resident_memory[];
  std::uint32_t memory = shared_address(resident_memory);
  settle(memory);  // or it would be computed again and again
  const ResidentStages<Shape> stages{arguments, memory};
  stages.init();
  launch_dependents();
  wait_for_predecessor();
  if (threadIdx.x < Shape::kMultiplying) {
    set_registers<232, true>();
    ResidentProducts<Shape>(stages, outputs).run();
  } else {
    set_registers<40, false>();
    if (threadIdx.x == Shape::kMultiplying) {
      ResidentCopy<Shape>(stages, inputs).run();
    }
  }
#endif
}

}  // namespace nibble::ops::cuda
