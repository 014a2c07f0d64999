#pragma once

#include <memory>
#include <span>

#include "formats/format.h"

namespace nibble::formats {

/// How scales are fitted to the weights of a matrix.
enum class NvRule {
  kPlain,        // the largest magnitude of a group becomes 6
  kFourOverSix,  // or 4, where that loses less
};

/// Ends of the range of global scales: 448 * 6 times the largest is finite in float32, and 2^-9
/// times the smallest is no subnormal.
inline constexpr float kMinNvGlobal = 0x1p-100f;
inline constexpr float kMaxNvGlobal = 0x1p100f;

/// The global scale of a matrix: max|w| / (6 * 448), so that the group with the largest weight gets
/// the largest E4M3 scale; with four-over-six max|w| / (6 * 256), so that its scale can still grow
/// by a half. Clamped to the range above. Throws kInvalidModel for weights that are not finite.
float nv_global(std::span<const float> matrix, NvRule rule = NvRule::kFourOverSix);

/// NVFP4 (NVIDIA; used for training in arXiv 2509.25149): groups of 16 inputs, w = E2M1(code) *
/// scale, scale = E4M3 * global, one float32 global for the matrix. The product scale is rounded to
/// float32.
///
/// fit() takes the E4M3 scale nearest to a / 6 / global, a being max|w| of the group, or with
/// four-over-six (Cook et al., arXiv 2512.02010) the one nearest to a / 4 / global when its squared
/// error is smaller: the values 4 and 6 lie far apart, and weights near 5/6 of the largest lose
/// much by it. Scales are positive and at least 2^-9 * global, also where plain rounding to E4M3
/// would give 0. Codes as in e2m1.h.
std::unique_ptr<const Format> make_nv_format(const Scheme& scheme, float global,
                                             NvRule rule = NvRule::kFourOverSix);

}  // namespace nibble::formats
