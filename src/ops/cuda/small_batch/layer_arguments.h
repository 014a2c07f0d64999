#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cuda/device_code/divisor.h"

namespace nibble::ops::cuda {

/// A layer's weights as thread blocks share them (share.cuh).
struct LayerArguments {
  const std::byte* units = nullptr;
  const std::int8_t* tables = nullptr;
  const float* factors = nullptr;  // [n] or null
  const float* bias = nullptr;     // [n] or null
  int n = 0;
  int blocks = 0;  // of 128 inputs
  Divisor by_blocks = Divisor(1);
  Divisor by_warps = Divisor(1);  // of a thread block
  int tiles_each = 0;  // row tiles of a thread block; the first `tiles_more` have one more
  int tiles_more = 0;
  int bf16_scales = 0;
};

/// Tiles of a piece, the bytes of one copy: half a unit where codes have 8 bits.
constexpr int piece_tiles(int code_bytes) {
  return code_bytes > 1024 ? 2 : 4;
}

}  // namespace nibble::ops::cuda
