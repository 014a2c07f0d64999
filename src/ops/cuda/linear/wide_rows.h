#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/float16.h"
#include "device/cuda/memory.h"

/// Rows of weights that become float16 for many tokens, some at a time, and meet cuBLASLt
/// (wide_product.h).
namespace nibble::ops::cuda {

/// Memory for what many tokens want as float16, rows and inputs, which all layers of a stream
/// share.
class WideScratch {
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

/// Rows that are widened at once, a multiple of 128: at most 32 MB, which the L2 cache holds, as
/// far as 128 rows leave that choice.
std::int64_t rows_at_once(std::int64_t n, std::int64_t k);

/// What a layer has in the scratch: rows_at_once() of its n rows of k inputs, and more behind them.
class WideRows {
 public:
  WideRows() = default;
  /// `scratch` may be null, where nothing is widened; else it gets room for the rows and `more`
  /// values. Throws kOutOfMemory.
  WideRows(std::shared_ptr<WideScratch> scratch, std::int64_t n, std::int64_t k,
           std::int64_t more = 0);

  core::Fp16* rows() const { return reinterpret_cast<core::Fp16*>(scratch_->data()); }
  core::Fp16* behind() const { return rows() + count_; }

 private:
  std::shared_ptr<WideScratch> scratch_;
  std::int64_t count_ = 0;  // values of the rows
};

}  // namespace nibble::ops::cuda
