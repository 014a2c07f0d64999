#include <cstring>

#include <immintrin.h>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace avx2 {

constexpr VectorShape kShape = {
    .isa = "avx2", .width = 8, .mixed = 2, .dot_columns = 3, .score_rows = 2};
constexpr std::int64_t kLaneOrder[] = {0, 4, 2, 6, 1, 5, 3, 7};

// What takes an instruction of its own.
struct Register {
  static __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
  static __m256 min(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }
  static __m256 max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
  static __m256 round(__m256 a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m256 zero_where_less(__m256 a, __m256 b, __m256 c) {
    return _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), c);
  }
  static __m256 scale_by_power_of_two(__m256 a, __m256 i) {
    const __m256i exponent =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(i), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(a, _mm256_castsi256_ps(exponent));
  }
};

struct Floats {
  __m256 value;

  static Floats zero() { return {_mm256_setzero_ps()}; }
  static Floats all(float a) { return {_mm256_set1_ps(a)}; }
  static Floats load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static Floats load(const core::Fp16* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  static Floats load(const core::Bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  // Magnitudes stand as float16 of 2^-8 times the number (its bias is 15, not 7), NaN as NaN.
  static Floats load(const core::E4m3* p) {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i shifted = _mm_slli_epi16(_mm_cvtepi8_epi16(codes), 7);
    const __m128i largest = _mm_set1_epi16(0x3f80);
    const __m128i nan = _mm_cmpeq_epi16(_mm_and_si128(shifted, largest), largest);
    const __m128i halves = _mm_or_si128(_mm_and_si128(shifted, _mm_set1_epi16(-0x4080)),
                                        _mm_and_si128(nan, _mm_set1_epi16(0x7c00)));
    return {_mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0f))};
  }
  void store(float* p) const { _mm256_storeu_ps(p, value); }
  void store(core::Fp16* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }

  /// `f` of the registers of some vectors.
  template <typename F, typename... V>
  static Floats each(F f, V... v) {
    return {f(v.value...)};
  }
};

inline float reduce_add(Floats a) {
  const __m128 half =
      _mm_add_ps(_mm256_castps256_ps128(a.value), _mm256_extractf128_ps(a.value, 1));
  const __m128 pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
}
inline __m256 add_halves(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
inline __m256 add_pairs(__m256 a, __m256 b) {
  const __m256d x = _mm256_castps_pd(a);
  const __m256d y = _mm256_castps_pd(b);
  return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                       _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
}
inline __m256 add_neighbours(__m256 a, __m256 b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}
// Lane i is reduce_add(sums[i]).
inline Floats reduce_add_each(const Floats* sums) {
  __m256 column[4];
  for (int i = 0; i < 4; ++i) {
    column[i] = add_halves(sums[i].value, sums[i + 4].value);
  }
  return {add_neighbours(add_pairs(column[0], column[1]), add_pairs(column[2], column[3]))};
}

#include "ops/cpu/vector/vector_kernels.inc"

}  // namespace avx2

const VectorKernels& vector_kernels_avx2() {
  return avx2::kKernels;
}

}  // namespace nibble::ops::cpu
