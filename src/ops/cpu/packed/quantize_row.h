#pragma once

#include <cstdint>

#include "formats/fp4/e2m1_doubles.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/variants.h"

/// Activation quantization of one token. Plain loops that each instruction set's file compiles (and
/// the compiler vectorizes) for itself, in an unnamed namespace so that each keeps its own copy.
/// Needs -ffp-contract=off: a fused multiply-add would round differently.
namespace nibble::ops::cpu {
namespace {

constexpr std::int32_t kAbsMask = 0x7fffffff;
constexpr std::int32_t kInfinityBits = 0x7f800000;
constexpr std::int32_t kNanBits = 0x7fc00000;
// Adding 1.5 * 2^23 rounds a float of magnitude below 2^22 to an integer, ties to even, and leaves
// that integer in the low bits.
constexpr float kRoundingShift = 12582912.0f;
constexpr std::int32_t kRoundingShiftBits = 0x4b400000;
constexpr float kTiny = 3.7615819e-37f;  // 2^-121: 127 / kTiny is still finite
constexpr std::int32_t kWideBase = 255;
constexpr std::int32_t kWideTop = 255 * 127 + 127;
constexpr float kTinyWide = 1.9259299e-34f;   // 2^-112: kWideTop / kTinyWide is still finite
constexpr float kTinyRange = 6.0185311e-36f;  // 2^-117: so is 1 / (kTinyRange / 255)

inline std::int32_t bits_of(float value) {
  return __builtin_bit_cast(std::int32_t, value);
}
inline float float_of(std::int32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// Bits of the largest magnitude. As integers NaN > infinity > every finite value.
[[gnu::always_inline]] inline std::int32_t absmax_bits(const float* x, std::int64_t count) {
  std::int32_t largest = 0;
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t magnitude = bits_of(x[i]) & kAbsMask;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

/// A float's place among all floats as an integer (NaN aside): negative ones count down from -1.
/// Integer minima and maxima run in vectors, those of floats do not.
inline std::int32_t order_of(float value) {
  const std::int32_t bits = bits_of(value);
  return bits ^ ((bits >> 31) & kAbsMask);
}
inline float value_of(std::int32_t order) {
  return float_of(order ^ ((order >> 31) & kAbsMask));
}

/// The range of x, widened to contain 0.
struct Range {
  float low = 0.0f;
  float high = 0.0f;
};

inline Range range_of(const float* x, std::int64_t count) {
  std::int32_t low = 0;
  std::int32_t high = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t order = order_of(x[i]);
    low = order < low ? order : low;
    high = order > high ? order : high;
  }
  return {low < 0 ? value_of(low) : 0.0f, value_of(high)};
}

/// How the inputs that share a scale become codes: clamp(round(x * inverse) + offset, low, high).
struct Coder {
  float scale = 0.0f;
  float inverse = 0.0f;  // 0: all codes are 0
  std::int32_t offset = 0;
  std::int32_t low = 0;
  std::int32_t high = 0;
  std::int32_t zero = 0;  // the code that means 0, where it is carried along
};

/// Codes and their sum.
[[gnu::always_inline]] inline std::int32_t encode(const float* x, std::int64_t count,
                                                  const Coder& coder, std::int8_t* codes) {
  const float inverse = coder.inverse;
  const std::int32_t shift = kRoundingShiftBits - coder.offset;
  std::int32_t sum = 0;
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < count; ++i) {
    const float shifted = x[i] * inverse + kRoundingShift;
    std::int32_t code = bits_of(shifted) - shift;
    code = code < coder.low ? coder.low : code;
    code = code > coder.high ? coder.high : code;
    codes[i] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return sum;
}

inline Coder symmetric_coder(const RowToQuantize& row, float largest) {
  const float reach = row.clip * largest;
  if (reach < kTiny) {
    return {};
  }
  if (row.e2m1) {
    constexpr std::int32_t kTop = formats::kE2m1Top;
    return {reach / kTop, kTop / reach, 0, -kTop, kTop, 0};
  }
  const std::int32_t top = (1 << (row.bits - 1)) - 1;
  const auto steps = static_cast<float>(top);
  return {reach / steps, steps / reach, 0, row.bits == 8 ? -127 : -top - 1, top, 0};
}

/// Codes of 3 and 4 bits are stored without their zero, q - z in [-15, 15]; those of 8 bits as q -
/// 128, with z - 128 carried along.
inline Coder asymmetric_coder(const RowToQuantize& row, Range range) {
  const float low = row.clip * range.low;
  const float high = row.clip * range.high;
  if (high - low < kTinyRange) {
    return {};
  }
  const std::int32_t last_code = (1 << row.bits) - 1;
  const auto last = static_cast<float>(last_code);
  const float scale = high / last - low / last;  // high - low may be beyond float32
  const float inverse = 1.0f / scale;
  const float shifted = -low * inverse + kRoundingShift;
  const std::int32_t zero = bits_of(shifted) - kRoundingShiftBits;
  if (row.bits != 8) {
    return {scale, inverse, 0, -zero, last_code - zero, 0};
  }
  return {scale, inverse, zero - 128, -128, 127, zero - 128};
}

/// Of a scale that is given. What it does not reach is cut (encode_cut).
inline Coder given_coder(const RowToQuantize& row) {
  const std::int32_t top = (1 << (row.bits - 1)) - 1;
  return {row.scale, 1.0f / row.scale, 0, row.bits == 8 ? -127 : -top - 1, top, 0};
}

/// As encode(), of products that may be far beyond the codes, where adding kRoundingShift would not
/// round: they are cut before it. Floats are compared as integers (order_of).
inline std::int32_t encode_cut(const float* x, std::int64_t count, const Coder& coder,
                               std::int8_t* codes) {
  const std::int32_t low = order_of(static_cast<float>(coder.low));
  const std::int32_t high = order_of(static_cast<float>(coder.high));
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t order = order_of(x[i] * coder.inverse);
    order = order < low ? low : order;
    order = order > high ? high : order;
    const float shifted = value_of(order) + kRoundingShift;
    const std::int32_t code = bits_of(shifted) - kRoundingShiftBits;
    codes[i] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return sum;
}

/// As encode(), to doubles of E2M1 numbers: steps of 1 up to 4, of 2 up to 8, of 4 up to 12. Adding
/// kRoundingShift times a step rounds to its multiples, ties to the even one.
inline std::int32_t encode_e2m1(const float* x, std::int64_t count, const Coder& coder,
                                std::int8_t* codes) {
  constexpr std::int32_t kTwos = 0x40800000;   // 4.0f, from which on steps are 2
  constexpr std::int32_t kFours = 0x41000000;  // 8.0f
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float product = x[i] * coder.inverse;
    const std::int32_t magnitude = bits_of(product) & kAbsMask;
    const std::int32_t doublings = (magnitude > kTwos ? 1 : 0) + (magnitude > kFours ? 1 : 0);
    const float shift = float_of(kRoundingShiftBits + (doublings << 23));
    const float rounded = (product + shift) - shift;
    std::int32_t code = bits_of(rounded + kRoundingShift) - kRoundingShiftBits;
    code = code < coder.low ? coder.low : code;
    code = code > coder.high ? coder.high : code;
    codes[i] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return sum;
}

/// For `count` inputs that share a scale.
[[gnu::always_inline]] inline Coder coder_of(const RowToQuantize& row, const float* x,
                                             std::int64_t count) {
  const std::int32_t largest = absmax_bits(x, count);
  if (largest >= kInfinityBits) {
    return {float_of(kNanBits), 0.0f, 0, 0, 0, 0};
  }
  if (row.scale != 0.0f) {
    return given_coder(row);
  }
  return row.symmetric ? symmetric_coder(row, float_of(largest))
                       : asymmetric_coder(row, range_of(x, count));
}

[[gnu::always_inline]] inline void quantize_group(const float* x, std::int64_t count,
                                                  std::int64_t stride, const Coder& coder,
                                                  const RowToQuantize& row, std::int8_t* codes,
                                                  std::int32_t* sum) {
  std::int64_t written = 0;
  *sum = 0;
  if (coder.inverse != 0.0f) {
    *sum = row.e2m1            ? encode_e2m1(x, count, coder, codes)
           : row.scale != 0.0f ? encode_cut(x, count, coder, codes)
                               : encode(x, count, coder, codes);
    written = count;
  }
  for (; written < stride; ++written) {
    codes[written] = 0;
  }
}

/// Codes of 16 bits as two digits to the base 255, each in [-127, 127]: code = 255 * high + low.
struct WideSums {
  std::int32_t high = 0;
  std::int32_t low = 0;
};

inline WideSums encode_wide(const float* x, std::int64_t count, float inverse, std::int8_t* high,
                            std::int8_t* low) {
  WideSums sums;
  for (std::int64_t i = 0; i < count; ++i) {
    const float shifted = x[i] * inverse + kRoundingShift;
    std::int32_t code = bits_of(shifted) - kRoundingShiftBits;
    code = code < -kWideTop ? -kWideTop : code;
    code = code > kWideTop ? kWideTop : code;
    const float digit = static_cast<float>(code) * (1.0f / kWideBase) + kRoundingShift;
    const std::int32_t first = bits_of(digit) - kRoundingShiftBits;
    const std::int32_t second = code - kWideBase * first;
    high[i] = static_cast<std::int8_t>(first);
    low[i] = static_cast<std::int8_t>(second);
    sums.high += first;
    sums.low += second;
  }
  return sums;
}

/// Scale and inverse for codes of 16 bits.
inline Coder wide_coder(const float* x, std::int64_t count) {
  const std::int32_t bits = absmax_bits(x, count);
  if (bits >= kInfinityBits) {
    return {float_of(kNanBits), 0.0f, 0, 0, 0, 0};
  }
  const float largest = float_of(bits);
  if (largest < kTinyWide) {
    return {};
  }
  return {largest / kWideTop, kWideTop / largest, 0, 0, 0, 0};
}

void quantize_wide_row(const RowToQuantize& row) {
  std::int64_t g = 0;
  for (std::int64_t begin = 0; begin < row.k; begin += row.group, ++g) {
    const std::int64_t left = row.k - begin;
    const std::int64_t count = left < row.group ? left : row.group;
    const Coder coder = wide_coder(row.x + begin, count);
    std::int8_t* high = row.codes + g * row.group_stride;
    std::int8_t* low = row.low_codes + g * row.group_stride;
    WideSums sums;
    std::int64_t written = 0;
    if (coder.inverse != 0.0f) {
      sums = encode_wide(row.x + begin, count, coder.inverse, high, low);
      written = count;
    }
    for (; written < row.group_stride; ++written) {
      high[written] = 0;
      low[written] = 0;
    }
    row.scales[g] = coder.scale * kWideBase;
    row.low_scales[g] = coder.scale;
    row.sums[g] = sums.high;
    row.low_sums[g] = sums.low;
  }
}

/// `Group`: inputs of each group, which divide the row, or 0: row.group. Loops over so few inputs
/// become vectors only where their number is known.
template <std::int64_t Group>
void quantize_groups(const RowToQuantize& row) {
  const std::int64_t group = Group != 0 ? Group : row.group;
  Coder coder;
  std::int64_t g = 0;
  for (std::int64_t begin = 0; begin < row.k; begin += group, ++g) {
    const float* const x = row.x + begin;
    const std::int64_t left = row.k - begin;
    if (Group != 0 && row.scale_group == Group) {
      coder = coder_of(row, x, Group);
    } else if (begin % row.scale_group == 0) {
      coder = coder_of(row, x, left < row.scale_group ? left : row.scale_group);
    }
    row.scales[g] = coder.scale;
    if (row.zeros != nullptr) {
      row.zeros[g] = coder.zero;
    }
    quantize_group(x, Group != 0 || left > group ? group : left, row.group_stride, coder, row,
                   row.codes + g * row.group_stride, row.sums + g);
  }
}

void quantize_row(const RowToQuantize& row) {
  if (row.low_codes != nullptr) {
    return quantize_wide_row(row);
  }
  if (row.group == kHalfUnit && row.k % kHalfUnit == 0) {
    return quantize_groups<kHalfUnit>(row);
  }
  quantize_groups<0>(row);
}

}  // namespace
}  // namespace nibble::ops::cpu
