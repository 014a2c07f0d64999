#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/threads.h"
#include "formats/activation.h"
#include "ops/cpu/packed/page_buffer.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/variants.h"
#include "ops/input_transform.h"

namespace nibble::ops::cpu {

/// How a linear layer wants its input: layers with equal needs can share one QuantizedInput.
struct InputNeeds {
  std::int64_t group = 0;             // inputs of a group of the layout: they share every scale
  formats::Activation activation{8};  // its group is a multiple of `group`, or 0
  InputTransform transform = {};      // before the inputs are rounded
  std::int64_t tail = 0;              // the last inputs, rounded apart (QuantizedInput::tail)
  bool wide = false;                  // codes of 16 bits with a scale for each group
  float scale = 0.0f;  // of all inputs, where it is stored (Activation::stored_scale)
  friend bool operator==(const InputNeeds&, const InputNeeds&) = default;
};

/// LLM.int8()'s threshold (arXiv 2208.07339, section 3.2).
inline constexpr float kOutlier = 6.0f;

/// Floats of any value that can be read behind the scales of the last row: vectors of a kernel.
inline constexpr std::int64_t kScalesBehind = 64;

/// An activation that is not in the codes.
struct Outlier {
  std::int64_t input;
  float value;
};

/// Activations of a linear layer as integers: x(row, k) = scales(row, g) * (codes(row, k) -
/// zeros(row, g)), g = k / group, or the outlier at k. Zeros are 0 but for asymmetric activations
/// of 8 bits: 4-bit codes stand here less their zero. Wide codes (16 bits) take two rows, whose sum
/// is the token: 255 * scale times the first digits, scale times the second; both digits lie in
/// [-127, 127], so that every kernel for INT8 computes with them exactly. A buffer to be reused: it
/// grows and never shrinks, so a decode loop does not allocate.
class QuantizedInput {
 public:
  std::int64_t m() const { return m_; }
  /// Rows of codes for each token: 2 where they are wide.
  std::int64_t rows_per_token() const { return needs_.wide ? 2 : 1; }
  std::int64_t k() const { return k_ + needs_.tail; }
  std::int64_t group() const { return needs_.group; }
  const InputNeeds& needs() const { return needs_; }
  std::int64_t groups() const { return groups_; }
  /// Bytes from one group of codes to the next: padded_group(), padded with zeros.
  std::int64_t group_stride() const { return group_stride_; }

  const std::int8_t* codes(std::int64_t row) const;  // [groups * group_stride], 64-byte aligned
  const float* scales(std::int64_t row) const;  // [groups]; kScalesBehind more can be read behind
  const std::int32_t* sums(std::int64_t row) const;  // [groups], sum of the group's codes
  /// [groups]; null unless activation.carries_zeros().
  const std::int32_t* zeros(std::int64_t row) const;
  std::span<const Outlier> outliers(std::int64_t row) const;
  /// The tail of the needs, in INT8 with a scale for each token. All else here is about the inputs
  /// before it. Null without a tail.
  const QuantizedInput* tail() const { return needs_.tail == 0 ? nullptr : tail_.get(); }
  TiledInput tiled() const;

  /// Sizes the buffers; codes, scales and sums are undefined until they are written.
  void reshape(std::int64_t m, std::int64_t k, const InputNeeds& needs);
  /// Where a token's values go.
  RowToQuantize target(std::int64_t token, const float* x);
  /// Where the token's values behind the others go. Only with a tail.
  RowToQuantize tail_target(std::int64_t token, const float* x) { return tail_->target(token, x); }
  /// Empty where the needs keep no outliers.
  std::vector<Outlier>& outliers_of(std::int64_t row);

 private:
  std::int64_t m_ = 0;
  std::int64_t k_ = 0;  // without the tail
  InputNeeds needs_;
  std::int64_t groups_ = 0;
  std::int64_t group_stride_ = 0;
  std::int64_t row_stride_ = 0;
  PageBuffer codes_;
  PageBuffer scales_;
  PageBuffer sums_;
  PageBuffer zeros_;
  std::vector<std::vector<Outlier>> outliers_;  // [m]
  std::unique_ptr<QuantizedInput> tail_;
};

/// How a tail of so many inputs is rounded.
InputNeeds tail_needs(std::int64_t tail);

/// Row `token` of `out`, which has its shape, of x [k]; any thread. As quantize_input().
void quantize_token(const Variant& variant, const float* x, std::int64_t token,
                    QuantizedInput& out);

/// Transforms the rows as the needs say, and rounds them.
/// Integers as formats::Activation says, over each group of inputs (the last may be short) or over
/// the whole row; a scale is repeated for each group of the layout that it covers. Outliers are
/// left out of range and codes. LLM.int8() keeps whole columns that hold an outlier in any token of
/// the batch; here each token is alone, so that its result does not depend on the others.
/// A scale of the needs is taken as it is: codes are round(x * (1 / scale)), cut at their ends. All
/// arithmetic is in float32: codes are round(x * inverse), inverse = levels / (clip * max|x|), or 1
/// / scale where asymmetric. E2M1 numbers stand here as their doubles, with half of their scale:
/// inverse = 12 / (clip * max|x|). What shares a scale with NaN or infinity gets scale NaN and
/// codes 0, so every output that reads it is NaN. Values that are all below 2^-121 (a range below
/// 2^-117) become zeros. Wide codes are round(x * 32512 / max|x|) over each group of the layout;
/// values below 2^-112 become zeros. x [m, k], rows ldx apart. group in [1, 256], or k.
void quantize_input(const float* x, std::int64_t m, std::int64_t k, std::int64_t ldx,
                    const InputNeeds& needs, QuantizedInput& out, core::ThreadPool& pool);

/// The same with the kernel of one variant; all variants give the same bits.
void quantize_input(const Variant& variant, const float* x, std::int64_t m, std::int64_t k,
                    std::int64_t ldx, const InputNeeds& needs, QuantizedInput& out,
                    core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
