#pragma once

#include <cstdint>

#include <cuda.h>

#include "ops/cuda/device_code/tensor_map.h"
#include "ops/cuda/gemm/gemm_arguments.h"

/// Results as the copy engine writes them, a box at a time (stage_tile.cuh).
namespace nibble::ops::cuda {

/// Results as a matrix [tokens, columns].
inline TensorBoxes output_matrix(const GemmArguments& a) {
  const GemmOutput& output = a.output;
  if (output.y != nullptr) {
    return {.data = output.y,
            .value_bytes = 4,
            .rows = a.tokens,
            .columns = a.rows,
            .row_bytes = 4 * output.stride};
  }
  if (output.half.values == nullptr) {
    return {.data = output.codes.codes,
            .value_bytes = 1,
            .rows = a.tokens,
            .columns = a.rows,
            .row_bytes = output.codes.stride};
  }
  return {.data = output.half.values,
          .value_bytes = 2,
          .rows = a.tokens,
          .columns = output.half.columns(a.rows),
          .row_bytes = 2 * output.half.stride};
}

/// Whether the copy engine can write them: it writes 16 bytes at a time, also at the end of a row.
inline bool copies_results(const GemmArguments& a) {
  const TensorBoxes to = output_matrix(a);
  return reinterpret_cast<std::uintptr_t>(to.data) % 16 == 0 && to.row_bytes % 16 == 0 &&
         to.columns * to.value_bytes % 16 == 0;
}

/// Their boxes.
template <class Shape>
CUtensorMap output_map(const GemmArguments& a) {
  const bool floats = a.output.y != nullptr;
  TensorBoxes boxes = output_matrix(a);
  boxes.box_rows = floats ? Shape::kStaged.float_tokens : Shape::kStaged.half_tokens;
  boxes.box_bytes = boxes.value_bytes == 1 || (!floats && a.output.half.pairs) ? 64 : 128;
  return make_tensor_map(boxes);
}

}  // namespace nibble::ops::cuda
