#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/dense/float_lanes512.h"
#include "ops/cpu/inlining.h"

/// 512-bit vectors for the kernels of attention_tile_kernel.h. Needs AVX512 F, BW, FMA.
namespace nibble::ops::cpu {
namespace {

struct AttentionLanes512 {
  using Floats = __m512;
  using Integers = __m512i;

  static NIBBLE_INLINE Floats load(const float* p) { return _mm512_load_ps(p); }
  static NIBBLE_INLINE Integers load(const std::int32_t* p) { return _mm512_loadu_si512(p); }
  static NIBBLE_INLINE void store(float* p, Floats x) { _mm512_store_ps(p, x); }
  static NIBBLE_INLINE Floats all(float x) { return _mm512_set1_ps(x); }
  static NIBBLE_INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static NIBBLE_INLINE Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static NIBBLE_INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static NIBBLE_INLINE Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static NIBBLE_INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  /// `b` where `a` is NaN.
  static NIBBLE_INLINE Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  /// a 2^i, or 0 where x < least.
  static NIBBLE_INLINE Floats scale_where(Floats x, float least, Floats a, Floats i) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, all(least), _CMP_NLT_UQ), a, i);
  }
  /// `otherwise` where not from <= at < to.
  static NIBBLE_INLINE Floats keep_where(Integers from, std::int32_t at, Integers to, Floats x,
                                         Floats otherwise) {
    const Integers place = _mm512_set1_epi32(at);
    const __mmask16 kept =
        _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(from, place), place, to);
    return _mm512_mask_mov_ps(otherwise, kept, x);
  }

  /// Two digits of `even` and `odd`, in turn.
  static NIBBLE_INLINE void split(Floats even, Floats odd, std::uint32_t* hi, std::uint32_t* lo) {
    const Floats even_digit = FloatLanes512::rounded(even);
    const Floats odd_digit = FloatLanes512::rounded(odd);
    FloatLanes512::store_pairs(hi, even_digit, odd_digit);
    FloatLanes512::store_pairs(lo, nearest(subtract(even, even_digit)),
                               nearest(subtract(odd, odd_digit)));
  }
  /// Two digits of 32 floats, in their order.
  static NIBBLE_INLINE void split_row(const float* x, std::uint32_t* hi, std::uint32_t* lo) {
    const __m512i of_even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i of_odd = _mm512_add_epi32(of_even, _mm512_set1_epi32(1));
    const Floats left = _mm512_loadu_ps(x);
    const Floats right = _mm512_loadu_ps(x + 16);
    split(_mm512_permutex2var_ps(left, of_even, right), _mm512_permutex2var_ps(left, of_odd, right),
          hi, lo);
  }
  /// Two digits of 16 floats each of two rows, in turn.
  static NIBBLE_INLINE void split_rows(const float* even, const float* odd, std::uint32_t* hi,
                                       std::uint32_t* lo) {
    split(_mm512_loadu_ps(even), _mm512_loadu_ps(odd), hi, lo);
  }
  static NIBBLE_INLINE void transpose(const void* from, void* to) {
    FloatLanes512::transpose(from, to);
  }

 private:
  /// A number of 8 bits that is nearest (Veltkamp), NaN of NaN.
  static NIBBLE_INLINE Floats nearest(Floats x) {
    const Floats wide = multiply(x, all(65537.0f));
    return subtract(wide, subtract(wide, x));
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
