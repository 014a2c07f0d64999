#pragma once

#include <cstdint>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/gemm/gemm_arguments.h"

/// The ring in shared memory through which the copying warp feeds those that multiply. A stage holds one
/// unit along k: the inputs of the tile's tokens, the packed units of its row groups and, where
/// inputs are scaled by group, the tokens' scales.
namespace nibble::ops::cuda {

/// Bytes of a stage's parts.
struct StageBytes {
  int inputs = 0;  // a multiple of 1024
  int units = 0;
  int scales = 0;
};

__host__ __device__ constexpr StageBytes stage_bytes(int token_tile, int steps, int unit_bytes,
                                                     bool scales_by_group) {
  return {token_tile * 128 * steps, unit_bytes,
          scales_by_group ? token_tile * 4 : 0};
}

__host__ __device__ constexpr int total(const StageBytes& stage) {
  return stage.inputs + stage.units + stage.scales + 16;  // and two barriers
}

/// A place in the ring. A barrier's phase ends each time the ring has gone round.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// Where everything lies.
struct Ring {
  std::uint8_t* inputs = nullptr;  // 1024-byte aligned
  std::uint8_t* units = nullptr;
  float* scales = nullptr;
  std::uint32_t full = 0;   // addresses of the first barriers of each kind
  std::uint32_t empty = 0;
  StageBytes bytes;

  __device__ std::uint8_t* inputs_of(int stage) const { return inputs + stage * bytes.inputs; }
  __device__ std::uint8_t* units_of(int stage) const { return units + stage * bytes.units; }
  __device__ float* scales_of(int stage) const { return scales + stage * (bytes.scales / 4); }
  __device__ std::uint32_t full_of(int stage) const { return full + stage * 8; }
  __device__ std::uint32_t empty_of(int stage) const { return empty + stage * 8; }
};

__device__ __forceinline__ Ring make_ring(std::uint8_t* memory, int stages,
                                          const StageBytes& bytes) {
  Ring ring;
  ring.bytes = bytes;
  ring.inputs = memory;
  ring.units = ring.inputs + stages * bytes.inputs;
  std::uint8_t* scales = ring.units + stages * bytes.units;
  ring.scales = reinterpret_cast<float*>(scales);
  ring.full = shared_address(scales + stages * bytes.scales);
  ring.empty = ring.full + stages * 8;
  return ring;
}

}  // namespace nibble::ops::cuda
