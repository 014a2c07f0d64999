#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace nibble::ops::cuda
