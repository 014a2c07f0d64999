#pragma once

#include <cstdint>

#include <cuda.h>

namespace nibble::ops::cuda {

/// A matrix in device memory from which the copy engine takes boxes of rows, or into which it puts
/// them: 16 bytes at a time, so that rows which it writes must be multiples of that.
struct TensorBoxes {
  const void* data = nullptr;  // 16-byte aligned
  int value_bytes = 0;         // 1 (INT8), 2 (float16) or 4 (float32)
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_bytes = 0;  // from row to row; a multiple of 16
  int box_rows = 0;            // at most 256
  int box_bytes = 128;         // of a row: 128 or 64
};

/// The descriptor of boxes of box_bytes x box_rows. In shared memory their rows lie together, and
/// 16-byte pieces change places by the row: piece p of row r lies at p ^ r % 8 where rows have 128
/// bytes, as wgmma.cuh reads them, and at p ^ r / 2 % 4 where they have 64. A kernel takes it as a
/// `const __grid_constant__ CUtensorMap`. Throws kFailed when the driver refuses it.
CUtensorMap make_tensor_map(const TensorBoxes& boxes);

}  // namespace nibble::ops::cuda
