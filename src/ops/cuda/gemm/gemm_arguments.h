#pragma once

#include <cstdint>

#include "ops/cuda/gemm/gemm.h"
#include "ops/cuda/gemm/ring.h"

namespace nibble::ops::cuda {

/// What the kernels get beside the inputs' tensor map.
struct GemmArguments {
  const std::uint8_t* units = nullptr;
  const std::uint8_t* tail_units = nullptr;  // the last unit along k, 8 bits, or none
  int tile_bytes = 0;
  int tail_tile_bytes = 0;
  int code_bytes = 0;     // of a tile
  int body_units = 0;     // units along k in `units`
  int units_along_k = 0;  // with the tail
  int group_shift = 0;    // the group of the 16 k number i of a unit is i >> group_shift
  GroupOffset offset = GroupOffset::kNone;
  const std::int8_t* tables = nullptr;   // [row_groups * 64][16] of books (book_table.h)
  const float* factors = nullptr;        // of rows, by which results are multiplied, or none
  const float* scale_factors = nullptr;  // the same of their scales
  int rows = 0;
  int row_groups = 0;  // of 64 rows
  int tokens = 0;
  const void* inputs = nullptr;
  std::int64_t input_row_bytes = 0;
  const float* input_scales = nullptr;
  const std::int32_t* input_zeros = nullptr;  // like scales, of 4-bit codes, or none
  int token_stride = 0;
  int group_stride = 0;
  GemmOutput output;
  int strips = 0;       // of the rows of a cluster of blocks of threads
  int token_tiles = 0;  // of the plan's tokens
  int parts = 0;        // of the strips of a token tile (resident_shape.h)
  int slot_bytes = 0;   // of a unit in shared memory
  bool staged = false;  // results go through shared memory (stage_tile.cuh)
  RingLayout ring;

  /// Whether the copy engine takes them from there.
  constexpr bool boxed() const { return staged && !output.in_blocks(); }
};

}  // namespace nibble::ops::cuda
