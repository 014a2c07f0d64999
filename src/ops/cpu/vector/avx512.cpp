#include <immintrin.h>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace avx512 {

constexpr VectorShape kShape = {
    .isa = "avx512", .width = 16, .mixed = 4, .dot_columns = 6, .score_rows = 4};
constexpr std::int64_t kLaneOrder[] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

// What takes an instruction of its own.
struct Register {
  static __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
  static __m512 min(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }
  static __m512 max(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
  static __m512 round(__m512 a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m512 zero_where_less(__m512 a, __m512 b, __m512 c) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), c);
  }
  static __m512 scale_by_power_of_two(__m512 a, __m512 i) { return _mm512_scalef_ps(a, i); }
};

struct Floats {
  __m512 value;

  static Floats zero() { return {_mm512_setzero_ps()}; }
  static Floats all(float a) { return {_mm512_set1_ps(a)}; }
  static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Floats load(const core::Fp16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Floats load(const core::Bf16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  // Magnitudes stand as float16 of 2^-8 times the number (its bias is 15, not 7), NaN as NaN.
  static Floats load(const core::E4m3* p) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
    const __m256i largest = _mm256_set1_epi16(0x3f80);
    const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(shifted, largest), largest);
    const __m256i halves = _mm256_or_si256(_mm256_and_si256(shifted, _mm256_set1_epi16(-0x4080)),
                                           _mm256_and_si256(nan, _mm256_set1_epi16(0x7c00)));
    return {_mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(256.0f))};
  }
  static Floats of_bytes(__m128i codes) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes))};
  }
  static Floats load(const std::uint8_t* p) {
    return of_bytes(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Floats load(Nibbles codes) {
    const __m128i pairs =
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes.bytes + codes.at / 2));
    const __m128i mask = _mm_set1_epi8(15);
    return of_bytes(_mm_unpacklo_epi8(_mm_and_si128(pairs, mask),
                                      _mm_and_si128(_mm_srli_epi16(pairs, 4), mask)));
  }
  void store(float* p) const { _mm512_storeu_ps(p, value); }
  void store(core::Fp16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }

  /// `f` of the registers of some vectors.
  template <typename F, typename... V>
  static Floats each(F f, V... v) {
    return {f(v.value...)};
  }
};

inline __mmask16 first(std::int64_t count) {
  return static_cast<__mmask16>((1u << count) - 1u);
}
inline Floats load_partial(const float* p, std::int64_t count) {
  return {_mm512_maskz_loadu_ps(first(count), p)};
}
inline void store_partial(Floats a, float* p, std::int64_t count) {
  _mm512_mask_storeu_ps(p, first(count), a.value);
}
// Halves, quarters, pairs: lanes i and i + 8, then i and i + 4, i and i + 2, 0 and 1.
inline float reduce_add(Floats a) {
  const __m256 half =
      _mm256_add_ps(_mm512_castps512_ps256(a.value), _mm512_extractf32x8_ps(a.value, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}
inline __m512 add_halves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}
inline __m512 add_quarters(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
inline __m512 add_pairs(__m512 a, __m512 b) {
  const __m512d x = _mm512_castps_pd(a);
  const __m512d y = _mm512_castps_pd(b);
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                       _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
inline __m512 add_neighbours(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
// Lane i is reduce_add(sums[i]).
inline Floats reduce_add_each(const Floats* sums) {
  __m512 column[4];
  for (int i = 0; i < 4; ++i) {
    column[i] = add_quarters(add_halves(sums[i].value, sums[i + 4].value),
                             add_halves(sums[i + 8].value, sums[i + 12].value));
  }
  return {add_neighbours(add_pairs(column[0], column[1]), add_pairs(column[2], column[3]))};
}

#include "ops/cpu/vector/vector_kernels.inc"

}  // namespace avx512

const VectorKernels& vector_kernels_avx512() {
  return avx512::kKernels;
}

}  // namespace nibble::ops::cpu
