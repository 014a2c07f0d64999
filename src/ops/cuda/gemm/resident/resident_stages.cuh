#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"
#include "ops/cuda/gemm/resident/resident_shape.h"

namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// What the copying and the multiplying warps both know: where things lie, and which parts this
/// block computes.
template <class Shape>
struct ResidentStages {
  const GemmArguments& a;
  const std::uint32_t memory;  // address of this block's shared memory
  const ResidentLayout layout;

  __device__ ResidentStages(const GemmArguments& arguments, std::uint32_t address)
      : a(arguments),
        memory(address),
        layout(resident_layout(Shape::kTokens, arguments.units_along_k, arguments.slot_bytes)) {}

  /// A tile of tokens and some strips of rows.
  struct Part {
    int first_token = 0;
    int begin = 0;  // strips
    int end = 0;
    bool last = false;  // of this block
  };
  __device__ int parts() const { return a.token_tiles * a.parts; }
  __device__ Part part(int number) const {
    const int piece = number / a.token_tiles;
    return {number % a.token_tiles * Shape::kTokens, piece * a.strips / a.parts,
            (piece + 1) * a.strips / a.parts, number + static_cast<int>(gridDim.x) >= parts()};
  }
  /// Calls `body(part, parity)` for each part of this block; parities of barriers of the inputs.
  template <class Body>
  __device__ void each_part(Body&& body) const {
    std::uint32_t parity = 0;
    for (int number = static_cast<int>(blockIdx.x); number < parts();
         number += static_cast<int>(gridDim.x)) {
      body(part(number), parity);
      parity ^= 1;
    }
  }

  /// A slot for a unit of weights. A barrier's phase ends each time all slots were used.
  struct Place {
    int slot = 0;
    std::uint32_t parity = 0;
  };
  __device__ void advance(Place& place) const {
    if (++place.slot == layout.slot_count) {
      place.slot = 0;
      place.parity ^= 1;
    }
  }

  // Addresses in shared memory.
  __device__ std::uint32_t inputs_of(int unit) const { return memory + unit * layout.unit_bytes; }
  __device__ std::uint32_t unit_in(int slot) const {
    return memory + layout.slots + slot * a.slot_bytes;
  }
  __device__ std::uint32_t inputs_full(int unit) const {
    return memory + layout.inputs_full + 8 * unit;
  }
  __device__ std::uint32_t inputs_empty() const { return memory + layout.inputs_empty; }
  __device__ std::uint32_t full(int slot) const { return memory + layout.slots_full + 8 * slot; }
  __device__ std::uint32_t empty(int slot) const { return memory + layout.slots_empty + 8 * slot; }

  __device__ void init() const {
    constexpr int kWarps = Shape::kMultiplying / 32;
    if (threadIdx.x == 0) {
      for (int unit = 0; unit < a.units_along_k; ++unit) {
        init_barrier(inputs_full(unit), 1);
      }
      init_barrier(inputs_empty(), kWarps);
      for (int slot = 0; slot < layout.slot_count; ++slot) {
        init_barrier(full(slot), 1);
        init_barrier(empty(slot), kWarps / kResidentWarpgroups);
      }
      publish_barriers();
    }
    __syncthreads();
  }
};

#endif

}  // namespace nibble::ops::cuda
