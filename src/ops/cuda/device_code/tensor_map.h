#pragma once

#include <cstdint>

#include <cuda.h>

namespace nibble::ops::cuda {

/// A matrix in device memory from which the copy engine takes boxes of rows.
struct TensorBoxes {
  const void* data = nullptr;  // 16-byte aligned
  int value_bytes = 0;         // 1 (INT8) or 2 (float16)
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_bytes = 0;  // from row to row; a multiple of 16
  int box_rows = 0;            // at most 256
};

/// The descriptor of boxes of 128 bytes x box_rows, which land in shared memory in the order that
/// wgmma.cuh reads: rows of 128 bytes, whose 16-byte pieces change places by the row (128-byte
/// swizzle). A kernel takes it as a `const __grid_constant__ CUtensorMap`. Throws kFailed when the
/// driver refuses it.
CUtensorMap make_tensor_map(const TensorBoxes& boxes);

}  // namespace nibble::ops::cuda
