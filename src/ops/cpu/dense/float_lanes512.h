#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/inlining.h"

/// 512-bit vectors for the kernels of float_tile_kernel.h. Needs AVX512 F, BW.
namespace nibble::ops::cpu {
namespace {

struct FloatLanes512 {
  /// The nearest numbers of 8 bits; of two that are as near, the larger one.
  static NIBBLE_INLINE __m512 rounded(__m512 x) {
    return upper(
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000))));
  }
  static NIBBLE_INLINE __m512 upper(__m512 x) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-0x10000)));
  }
  /// The upper halves of `even` and `odd` in turn.
  static NIBBLE_INLINE void store_pairs(std::uint32_t* to, __m512 even, __m512 odd) {
    _mm512_store_si512(to, _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(even), 16),
                                           _mm512_castps_si512(upper(odd))));
  }

  static NIBBLE_INLINE void split_inputs(const float* x, std::uint32_t* hi, std::uint32_t* mid,
                                         std::uint32_t* lo) {
    const __m512i of_even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512 left = _mm512_loadu_ps(x);
    const __m512 right = _mm512_loadu_ps(x + 16);
    __m512 even = _mm512_permutex2var_ps(left, of_even, right);
    __m512 odd =
        _mm512_permutex2var_ps(left, _mm512_add_epi32(of_even, _mm512_set1_epi32(1)), right);
    move_digits(hi, even, odd);
    move_digits(mid, even, odd);
    store_pairs(lo, even, odd);
  }
  /// The highest digits that are left.
  static NIBBLE_INLINE void move_digits(std::uint32_t* to, __m512& even, __m512& odd) {
    const __m512 even_digit = rounded(even);
    const __m512 odd_digit = rounded(odd);
    store_pairs(to, even_digit, odd_digit);
    even = _mm512_sub_ps(even, even_digit);
    odd = _mm512_sub_ps(odd, odd_digit);
  }

  static NIBBLE_INLINE __m512 widen(const std::uint16_t* w) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
  }
  /// The upper halves of all words, in their order.
  static NIBBLE_INLINE void store_uppers(std::uint16_t* to, __m512 left, __m512 right) {
    alignas(64) static constexpr std::uint16_t kUppers[32] = {
        1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
        33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    _mm512_store_si512(
        to, _mm512_permutex2var_epi16(_mm512_castps_si512(left), _mm512_load_si512(kUppers),
                                      _mm512_castps_si512(right)));
  }
  static NIBBLE_INLINE void split_halves(const std::uint16_t* w, std::uint16_t* hi,
                                         std::uint16_t* lo) {
    const __m512 left = widen(w);
    const __m512 right = widen(w + 16);
    const __m512 left_digit = rounded(left);
    const __m512 right_digit = rounded(right);
    store_uppers(hi, left_digit, right_digit);
    store_uppers(lo, _mm512_sub_ps(left, left_digit), _mm512_sub_ps(right, right_digit));
  }

  static NIBBLE_INLINE void copy(const std::uint32_t* from, std::int64_t count, std::uint32_t* to) {
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << count) - 1u),
                             _mm512_load_si512(from));
  }

  /// Words of four rows change places inside lanes of four, then lanes do.
  static NIBBLE_INLINE void transpose(const void* from, void* to) {
    __m512i rows[16];
    __m512i lanes[16];
#pragma GCC unroll 4
    for (int r = 0; r < 16; r += 4) {
      const __m512i* const p = static_cast<const __m512i*>(from) + r;
      const __m512i low01 = _mm512_unpacklo_epi32(p[0], p[1]);
      const __m512i high01 = _mm512_unpackhi_epi32(p[0], p[1]);
      const __m512i low23 = _mm512_unpacklo_epi32(p[2], p[3]);
      const __m512i high23 = _mm512_unpackhi_epi32(p[2], p[3]);
      // rows[r + c]: lane l has column 4 l + c of rows r to r + 3
      rows[r] = _mm512_unpacklo_epi64(low01, low23);
      rows[r + 1] = _mm512_unpackhi_epi64(low01, low23);
      rows[r + 2] = _mm512_unpacklo_epi64(high01, high23);
      rows[r + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const __m512i low01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);   // lanes 0, 2
      const __m512i high01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xdd);  // 1, 3
      const __m512i low23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
      const __m512i high23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xdd);
      lanes[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
      lanes[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
      lanes[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
      lanes[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      _mm512_store_si512(static_cast<__m512i*>(to) + i, lanes[i]);
    }
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
