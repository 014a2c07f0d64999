#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/inlining.h"

/// 512-bit vectors for the kernels of float_tile_kernel.h and few_tokens_kernel.h. Needs AVX512 F,
/// BW.
namespace nibble::ops::cpu {
namespace {

struct FloatLanes512 {
  using Vector = __m512;

  /// DAZ and FTZ are set while this lives. The compiler does not know what they do: what depends on
  /// them is a function that is not inlined.
  class FlushScope {
   public:
    FlushScope() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
    ~FlushScope() { _mm_setcsr(saved_); }
    FlushScope(const FlushScope&) = delete;
    FlushScope& operator=(const FlushScope&) = delete;

   private:
    unsigned saved_;
  };

  static NIBBLE_INLINE Vector zero() { return _mm512_setzero_ps(); }
  static NIBBLE_INLINE Vector load(const float* p) { return _mm512_load_ps(p); }
  static NIBBLE_INLINE void store(float* p, Vector v) { _mm512_store_ps(p, v); }
  static NIBBLE_INLINE void store_bits(std::uint32_t* p, Vector v) { _mm512_store_ps(p, v); }
  static NIBBLE_INLINE Vector broadcast(const std::uint32_t* bits) {
    return _mm512_set1_ps(__builtin_bit_cast(float, *bits));
  }
  static NIBBLE_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  static NIBBLE_INLINE Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }

  static NIBBLE_INLINE void widen_pairs(const std::uint32_t* pairs, Vector& even, Vector& odd) {
    const __m512i words = _mm512_load_si512(pairs);
    even = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
    odd = upper(_mm512_castsi512_ps(words));
  }
  static NIBBLE_INLINE void split_half(const std::uint16_t* w, Vector& hi, Vector& lo) {
    const __m512 value = widen(w);
    hi = rounded(value);
    lo = _mm512_sub_ps(value, hi);
  }

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

  static NIBBLE_INLINE __m512i line(const void* from, std::int64_t stride, std::int64_t row) {
    return _mm512_loadu_si512(static_cast<const char*>(from) + row * stride);
  }
  /// Words of four rows change places inside lanes of four, then lanes do.
  static NIBBLE_INLINE void transpose(const void* from, std::int64_t stride, void* to) {
    __m512i rows[16];
    __m512i lanes[16];
#pragma GCC unroll 4
    for (int r = 0; r < 16; r += 4) {
      const __m512i row0 = line(from, stride, r);
      const __m512i row1 = line(from, stride, r + 1);
      const __m512i row2 = line(from, stride, r + 2);
      const __m512i row3 = line(from, stride, r + 3);
      const __m512i low01 = _mm512_unpacklo_epi32(row0, row1);
      const __m512i high01 = _mm512_unpackhi_epi32(row0, row1);
      const __m512i low23 = _mm512_unpacklo_epi32(row2, row3);
      const __m512i high23 = _mm512_unpackhi_epi32(row2, row3);
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

  /// Halves of eight rows change places inside lanes of eight, then lanes of both eights meet.
  static NIBBLE_INLINE void transpose_halves(const void* from, std::int64_t stride, void* to) {
    __m512i eights[2][8];
#pragma GCC unroll 2
    for (std::int64_t eight = 0; eight < 2; ++eight) {
      __m512i pairs[8];
      __m512i fours[8];
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < 4; ++i) {
        const __m512i first = line(from, stride, 8 * eight + 2 * i);
        const __m512i second = line(from, stride, 8 * eight + 2 * i + 1);
        pairs[2 * i] = _mm512_unpacklo_epi16(first, second);
        pairs[2 * i + 1] = _mm512_unpackhi_epi16(first, second);
      }
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < 4;
           ++i) {  // fours[4 r + c]: rows 4 r to 4 r + 3, halves 2 c and 2 c + 1
        const std::int64_t r = i / 2 * 4;
        const std::int64_t c = i % 2;
        fours[r + 2 * c] = _mm512_unpacklo_epi32(pairs[r + c], pairs[r + 2 + c]);
        fours[r + 2 * c + 1] = _mm512_unpackhi_epi32(pairs[r + c], pairs[r + 2 + c]);
      }
#pragma GCC unroll 4
      for (std::int64_t c = 0; c < 4; ++c) {
        eights[eight][2 * c] = _mm512_unpacklo_epi64(fours[c], fours[4 + c]);
        eights[eight][2 * c + 1] = _mm512_unpackhi_epi64(fours[c], fours[4 + c]);
      }
    }
    const __m512i of_left = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i of_right = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < 8; ++i) {
      auto* const line = static_cast<__m512i*>(to) + i;
      _mm512_store_si512(line, _mm512_permutex2var_epi64(eights[0][i], of_left, eights[1][i]));
      _mm512_store_si512(line + 8, _mm512_permutex2var_epi64(eights[0][i], of_right, eights[1][i]));
    }
  }
  /// Where transpose_halves() leaves the 16 numbers of an input.
  static constexpr std::int64_t half_at(std::int64_t input) {
    return (input / 16 * 8 + input % 8) * 32 + input / 8 % 2 * 16;
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
