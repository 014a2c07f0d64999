#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda.h>
#include <cuda_runtime.h>

#include "ops/cuda/device_code/dependent_launch.cuh"
#include "ops/cuda/gemm/gemm_copy.cuh"
#include "ops/cuda/gemm/gemm_multiply_by_group.cuh"

/// The kernel for sm_90a. A block of threads computes one tile after the other: warpgroup 0 copies,
/// each of the others multiplies 64 rows. Their results leave through shared memory
/// (stage_tile.cuh), their own or a stage of the ring that is lent for that, or from registers
/// (store_tile.cuh). The blocks of a cluster take neighbouring strips of rows and the same tokens,
/// of which each reads its share for all of them; or they divide k, and each finishes half of the
/// tokens (half_sums.cuh).
namespace nibble::ops::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

template <class Shape>
__device__ __forceinline__ void init_stages(const GemmStages<Shape>& stages,
                                            const CUtensorMap& inputs, const CUtensorMap& outputs) {
  if (threadIdx.x == 0) {
    prefetch_map(inputs);
    if (stages.a.boxed()) {
      prefetch_map(outputs);
    }
    for (int stage = 0; stage < stages.a.ring.stages; ++stage) {
      init_barrier(stages.full(stage), Shape::kFullArrivals);
      init_barrier(stages.empty(stage), Shape::kEmptyArrivals);
    }
    if constexpr (Shape::kDividesK) {
      HalfSums<Shape>(stages).init_barriers();
    }
    publish_barriers();
  }
  if constexpr (Shape::kCluster > 1) {
    cluster_barrier();
  } else {
    __syncthreads();
  }
  if constexpr (Shape::kDividesK) {
    arrive_at_cluster();  // HalfSums waits until the other block has come this far
  }
}

template <class Shape>
__device__ __forceinline__ void run_gemm(const GemmArguments& a, const CUtensorMap& inputs,
                                         const CUtensorMap& outputs) {
  using Multiply =
      std::conditional_t<Shape::kByGroup, GemmMultiplyByGroup<Shape>, GemmMultiplyByRow<Shape>>;
  constexpr bool kTwo = Shape::kWarpgroups == 2;  // that share the registers, or three
  extern __shared__ __align__(1024) std::uint8_t gemm_memory[];
  std::uint32_t memory = shared_address(gemm_memory) + Shape::kStagingBytes;
  settle(memory);  // or it would be computed again and again
  const GemmStages<Shape> stages{a, memory};
  init_stages(stages, inputs, outputs);
  launch_dependents();
  if (threadIdx.x < 128) {
    set_registers<kTwo ? 40 : 32, false>();
    GemmCopy<Shape>(stages, inputs).run();
  } else {
    set_registers<kTwo ? 232 : 160, true>();
    wait_for_predecessor();
    const Multiply multiply(stages, outputs);
    multiply.run();
    multiply.finish_writing();
  }
  if constexpr (Shape::kCluster > 1) {
    cluster_barrier();  // nobody leaves while another may still write to it
  }
}

#endif

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    gemm_wgmma(const __grid_constant__ GemmArguments arguments,
               const __grid_constant__ CUtensorMap inputs,
               const __grid_constant__ CUtensorMap outputs) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  run_gemm<Shape>(arguments, inputs, outputs);
#endif
}

}  // namespace nibble::ops::cuda
