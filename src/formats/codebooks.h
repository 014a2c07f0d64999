#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "formats/scheme.h"

namespace nibble::formats {

/// E2M1 in the bit order of OCP MX (sign << 3 | magnitude), the values of FP4 and MXFP4. Code 8 is
/// -0.
inline constexpr std::array<float, 16> kE2m1 = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                -2.0f, -3.0f, -4.0f, -6.0f};

/// NormalFloat4, ascending: quantiles of N(0, 1) scaled to [-1, 1], 8 of them not below zero
/// (QLoRA, arXiv 2305.14314, appendix E).
inline constexpr std::array<float, 16> kNf4 = {-1.0f,
                                               -0.6961928009986877f,
                                               -0.5250730514526367f,
                                               -0.39491748809814453f,
                                               -0.28444138169288635f,
                                               -0.18477343022823334f,
                                               -0.09105003625154495f,
                                               0.0f,
                                               0.07958029955625534f,
                                               0.16093020141124725f,
                                               0.24611230194568634f,
                                               0.33791524171829224f,
                                               0.44070982933044434f,
                                               0.5626170039176941f,
                                               0.7229568362236023f,
                                               1.0f};

/// The 16 values of a fixed book, in the order of their codes. `group` is Scheme::group: AF4 has
/// one book for each of 32, 64, 128 and 256; another size takes the nearest of them in log2, and 0
/// (a whole row) the last. Throws kUsage for books that are learned (kPerRow, kPerMatrix) and for
/// kNone.
std::span<const float> fixed_book(Book book, std::int64_t group);

}  // namespace nibble::formats
