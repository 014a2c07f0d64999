#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/cuda/sparse/sparse_layout.h"

namespace nibble::ops::cuda {

/// Block-sparse rows on the device (sparse_layout.h), as kernels get them.
struct SparseView {
  const std::byte* units = nullptr;
  const SparseShare* shares = nullptr;         // [blocks]
  const std::uint32_t* pieces = nullptr;       // [n] word_of(RowPieces)
  const std::uint16_t* stream_rows = nullptr;  // [blocks][warps * 4]
  int n = 0;
  int k = 0;
  int blocks = 0;
  int warps_log2 = 0;
  int stride = 0;     // units from warp to warp
  int most_rows = 0;  // of a thread block
};

/// Memory for rows that many tokens want as float16, which all layers of a stream share.
class SparseScratch {
 public:
  void reserve(std::int64_t bytes) {
    if (buffer_.bytes() < bytes) {
      buffer_ = device::cuda::Buffer();
      buffer_ = device::cuda::Buffer(bytes);
    }
  }
  std::byte* data() const { return buffer_.data(); }
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  device::cuda::Buffer buffer_;
};

/// The weights of a layer, and memory to widen some of their rows.
class SparseRows {
 public:
  SparseRows() = default;
  /// Uploads. `scratch` may be null, where many tokens come in launches. Throws kOutOfMemory.
  SparseRows(const PackedSparse& packed, std::shared_ptr<SparseScratch> scratch);

  const SparseView& view() const { return view_; }
  std::int64_t bytes() const {
    return units_.bytes() + shares_.bytes() + pieces_.bytes() + stream_rows_.bytes();
  }
  const SparseScratch* scratch() const { return scratch_.get(); }

 private:
  device::cuda::Buffer units_;
  device::cuda::Buffer shares_;
  device::cuda::Buffer pieces_;
  device::cuda::Buffer stream_rows_;
  SparseView view_;
  std::shared_ptr<SparseScratch> scratch_;
};

/// Rows that are widened at once, a multiple of 128: at most 32 MB, which the L2 cache holds, as
/// far as 128 rows leave that choice.
std::int64_t rows_at_once(std::int64_t n, std::int64_t k);

}  // namespace nibble::ops::cuda
