#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/float16.h"
#include "device/cuda/memory.h"
#include "ops/cuda/linear/wide_rows.h"
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
  int stride = 0;       // units from warp to warp
  int most_rows = 0;    // of a thread block
  int code_blocks = 1;  // blocks_of_codes()
};

/// Tokens whose codes become float16 at once.
inline constexpr std::int64_t kWideTokens = 2048;

/// The weights of a layer, and memory to widen some of their rows.
class SparseRows {
 public:
  SparseRows() = default;
  /// Uploads. `scratch` may be null, where nothing is widened; else it gets room for
  /// rows_at_once(), and for so many inputs. Throws kOutOfMemory.
  SparseRows(const PackedSparse& packed, std::shared_ptr<WideScratch> scratch,
             std::int64_t wide_tokens = 0);

  const SparseView& view() const { return view_; }
  std::int64_t bytes() const {
    return units_.bytes() + shares_.bytes() + pieces_.bytes() + stream_rows_.bytes();
  }
  /// In the scratch: [rows_at_once()][k], and behind them [wide_tokens][k, padded].
  core::Fp16* wide_rows() const { return wide_.rows(); }
  core::Fp16* wide_inputs() const { return wide_.behind(); }

 private:
  device::cuda::Buffer units_;
  device::cuda::Buffer shares_;
  device::cuda::Buffer pieces_;
  device::cuda::Buffer stream_rows_;
  SparseView view_;
  WideRows wide_;
};

}  // namespace nibble::ops::cuda
