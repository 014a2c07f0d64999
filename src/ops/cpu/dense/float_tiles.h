#pragma once

#include <cstdint>

/// Layers of BF16 and F16 weights in tile registers that multiply BF16 (AMX-BF16), as accurate as
/// in float32.
///
/// A float32 number x has 24 bits, a BF16 number 8. Rounding x to nearest, then what is left of it,
/// cuts it into three digits, with no error (below 2^-103 the lower ones are subnormal):
///
///   x = hi + mid + lo      |mid| <= 2^-8 |x|      |lo| <= 2^-17 |x|
///
/// A float16 weight has 11 bits: w = hi + lo with |lo| <= 2^-8 |w|, always exact, for BF16 has the
/// wider exponent. A BF16 weight is its only digit. Of the products of digits, those of the two
/// lowest ones of a float16 weight and of x are left out: at most 2^-25 |w x|, half of what
/// rounding w x to float32 may lose. So BF16 weights take 3 products, float16 weights 5.
///
/// The products of the highest digits are summed apart from the others, which are 2^-7 of them:
///
///   y = sum hi(w) hi(x)  +  sum of the others
///
/// Sums are those of TDPBF16PS: a step of 32 inputs is a chain of 16 fused multiply-adds over the
/// even inputs and one over the odd ones, in float32, to nearest even; their sum is added to those
/// of earlier steps. With u = 2^-24 the error of y is at most
///
///   (20 + 1.1 ceil(k / 32)) u sum |w x|
///
/// (16 + 1 + ceil(k / 32) additions in the first sum, 1/128 of some four times as many in the
/// second, one of both, what is left out.) Dot products in registers of 16 floats have the same
/// term ceil(k / 32) and 5 in the place of 20. What is below 2^-126 counts as 0, also as a digit
/// or a sum: beyond the bound, up to 2^-123 (|w| + |x| + 1) for each input.
///
/// A number of y depends on its row of x and its row of weights alone, not on other tokens, other
/// rows, blocks, or threads, so ranks that have some of the rows make the same bits.
namespace nibble::ops::cpu {

inline constexpr std::int64_t kStepInputs = 32;
inline constexpr std::int64_t kStepPairs = kStepInputs / 2;
inline constexpr std::int64_t kInputDigits = 3;
inline constexpr std::int64_t kGroupTokens = 16;  // of a tile, at most
inline constexpr std::int64_t kStripRows = 32;    // rows of weights that two tiles hold
inline constexpr std::int64_t kTileSums = std::int64_t{16} * 16;
inline constexpr std::int64_t kGroupSums =
    4 * kTileSums;  // floats of a strip for a group of tokens

/// Up to so many tokens weights go to tile registers without panels, with the same bits
/// (docs/experiments/cpu-linear-layers.md).
inline constexpr std::int64_t kUnpanelledTokens = 15;

/// Steps of the panels in which inputs pass: the weights of a strip then fill 32 KiB.
constexpr std::int64_t panel_steps(bool is_f16) {
  return is_f16 ? 8 : 16;
}

/// Digits of one group of tokens over some steps.
struct TokensToSplit {
  const float* x = nullptr;  // [tokens] rows, ldx apart, at input 0
  std::int64_t ldx = 0;
  std::int64_t tokens = 0;
  std::int64_t columns = 0;  // of a tile: at least as many, at most kGroupTokens; others are 0
  std::int64_t k = 0;
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  /// [steps][kInputDigits: hi, mid, lo][kStepPairs][columns], two neighbouring inputs each.
  std::uint32_t* digits = nullptr;
};

/// Some strips for a block of tokens.
struct FloatTileTask {
  const std::uint16_t* weights = nullptr;  // [n, k], BF16 or F16
  bool is_f16 = false;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t steps = 0;  // that hold k inputs
  std::int64_t first_strip = 0;
  std::int64_t strips = 0;

  /// [panels][groups], each as TokensToSplit::digits.
  const std::uint32_t* digits = nullptr;
  std::int64_t tokens = 0;
  std::int64_t columns = 0;  // of all groups
  std::int64_t groups = 0;   // that hold the tokens
  bool has_panels = true;    // or one group takes weights step by step

  float* sums = nullptr;  // [strips][groups][kGroupSums], at the start of a cache line
  float* y = nullptr;     // [tokens, n], rows ldy apart
  std::int64_t ldy = 0;
};

/// Whether layers of floats take tile registers without being asked (by NIBBLE_ISA=amxint8) where
/// the CPU has them.
inline constexpr bool kFloatTilesByDefault = false;

/// The loops, on the hardware or on what stands in for it in tests.
struct FloatTiles {
  const char* name = nullptr;
  const char* needs = nullptr;
  bool (*runs_here)() = nullptr;  // the CPU and the operating system have what it needs
  void (*split)(const TokensToSplit&) = nullptr;
  void (*multiply)(const FloatTileTask&) = nullptr;
  std::int64_t unpanelled_tokens = 0;  // at most kGroupTokens

  /// Products on registers alone, as many rounds as told: what a benchmark takes for the limit of
  /// arithmetic. Returns the number of multiply-adds of digits.
  std::int64_t (*multiply_registers)(std::int64_t rounds) = nullptr;
};

const FloatTiles& float_tiles_amxbf16();  // x86-64

}  // namespace nibble::ops::cpu
