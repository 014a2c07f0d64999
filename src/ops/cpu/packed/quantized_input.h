#pragma once

#include <cstdint>

#include "core/threads.h"
#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/variants.h"

namespace nibble::ops::cpu {

/// Activations of a linear layer in 8 bits: x(row, k) = scales(row, k / group) * codes(row, k).
/// A buffer to be reused: it grows and never shrinks, so a decode loop does not allocate.
class QuantizedInput {
 public:
  std::int64_t m() const { return m_; }
  std::int64_t k() const { return k_; }
  std::int64_t group() const { return group_; }
  bool per_token() const { return per_token_; }
  std::int64_t groups() const { return groups_; }
  /// Bytes from one group of codes to the next: the group padded with zeros to a multiple of 32.
  std::int64_t group_stride() const { return group_stride_; }

  const std::int8_t* codes(std::int64_t row) const;  // [groups * group_stride], 64-byte aligned
  const float* scales(std::int64_t row) const;       // [groups]
  const std::int32_t* sums(std::int64_t row) const;  // [groups], sum of the group's codes
  TiledInput tiled() const;

  /// Sizes the buffers; codes, scales and sums are undefined until they are written.
  void reshape(std::int64_t m, std::int64_t k, std::int64_t group, bool per_token);
  /// Where row `row` of x goes.
  RowToQuantize target(std::int64_t row, const float* x);

 private:
  std::int64_t m_ = 0;
  std::int64_t k_ = 0;
  std::int64_t group_ = 0;
  std::int64_t groups_ = 0;
  std::int64_t group_stride_ = 0;
  std::int64_t row_stride_ = 0;
  bool per_token_ = false;
  PageBuffer codes_;
  PageBuffer scales_;
  PageBuffer sums_;
};

/// Symmetric INT8 with scale = absmax / 127 over each group of inputs (the last may be short), or
/// over the whole row when `per_token` (the scale is then repeated for each group). Rounds to
/// nearest even. A group (row) that holds NaN or infinity gets scale NaN and codes 0, so every
/// output that reads it is NaN. A group whose largest value is below 2^-121 becomes zeros. x [m,
/// k], rows ldx apart. group in [1, 256].
void quantize_input(const float* x, std::int64_t m, std::int64_t k, std::int64_t ldx,
                    std::int64_t group, bool per_token, QuantizedInput& out,
                    core::ThreadPool& pool);

/// The same with the kernel of one variant; all variants give the same bits.
void quantize_input(const Variant& variant, const float* x, std::int64_t m, std::int64_t k,
                    std::int64_t ldx, std::int64_t group, bool per_token, QuantizedInput& out,
                    core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
