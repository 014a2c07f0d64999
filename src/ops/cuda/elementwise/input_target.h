#pragma once

#include <cstdint>

#include "core/float16.h"
#include "formats/code_type.h"

namespace nibble::ops::cuda {

/// In which form linear layers read their input. Columns are padded with zeros to a multiple of
/// kInputPadding.
enum class InputForm {
  kFloat16,        // in natural order, saturated to +-65504
  kBFloat16,       // in natural order
  kFloat16Tiles,   // in tile order: within each 32 columns k = 8t + 4e + i lies at
                   // 16e + 2t + (i & 1) + 8 (i >> 1)
  kFloat16Summed,  // the same, with sums of 128 columns (InputTarget::sums)
  kByteTiles,      // codes in tile order: k = 8t + 4e + {0, 2, 1, 3}[n] lies at 16e + 4t + n
  kInt8Lanes,      // in lane order (small_batch.h): within each 128, k = 32h + 8t + 4e + {0, 2, 1,
                   // 3}[n] lies at 32t + 8h + 4e + n
  kInt4Tiles,      // signed codes of 4 bits, two to a byte (int4_tiles.h)
};

inline constexpr std::int64_t kInputPadding = 128;

constexpr std::int64_t padded_columns(std::int64_t columns) {
  return (columns + kInputPadding - 1) / kInputPadding * kInputPadding;
}

/// Whether values are float16.
constexpr bool is_half(InputForm form) {
  return form == InputForm::kFloat16 || form == InputForm::kFloat16Tiles ||
         form == InputForm::kFloat16Summed;
}

/// Whether there are values in the place of codes.
constexpr bool has_values(InputForm form) {
  return is_half(form) || form == InputForm::kBFloat16;
}

/// Floats of InputTarget::sums from one 128 columns to the next, for up to 64 tokens: two for each
/// that a kernel of medium_batch.h takes.
constexpr std::int64_t sum_stride_of(std::int64_t m) {
  return m <= 32 ? 64 : 128;
}

/// Where the input of linear layers goes, on the device. Codes and scales are those of
/// the CPU (formats/activation.h), bit for bit: integers of cpu::quantize_input.
struct InputTarget {
  InputForm form = InputForm::kFloat16;
  core::Fp16* values = nullptr;   // [m, padded]; bfloat16 in their place for kBFloat16
  float* sums = nullptr;          // [padded / 128, sum_stride / 4, 2, 2], kFloat16Summed only: of
                                  // token 2p + c and 128 values -2^-21 and -2^-17 times their sum,
                                  // at [.., p, 0, c] and [.., p, 1, c]
  std::int64_t sum_stride = 0;    // sum_stride_of(m)
  std::int8_t* codes = nullptr;   // [m * digits(), padded]; kInt4Tiles: bytes [m, padded / 2]
  float* scales = nullptr;        // [m], or [m, padded / group]; 0 for groups of padding alone
  std::int32_t* zeros = nullptr;  // like scales; only for 8 bits asymmetric, codes and zeros - 128,
                                  // and for kInt4Tiles asymmetric, both less 8
  int bits = 8;                   // 16, 8 or 4; 4-bit codes lie in bytes, less their zero; those
                                  // of 16 bits as two digits to the base 255, in a row each
  bool symmetric = true;
  std::int64_t group = 0;  // 0: the row shares one scale; else 32, 64 or 128
  float clip = 1.0f;
  float scale = 0.0f;  // of all rows, where it stands with the layer (Activation::stored_scale):
                       // symmetric, group 0; else 0, and each row or group has its own
  const formats::CodeType* type = &formats::kIntegerCodes;  // what codes are

  constexpr int digits() const { return bits == 16 ? 2 : 1; }
  bool has_integers() const { return !has_values(form) && type == &formats::kIntegerCodes; }
};

}  // namespace nibble::ops::cuda
