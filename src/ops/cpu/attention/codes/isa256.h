#pragma once

#include <immintrin.h>

#include "ops/cpu/attention/codes/code_kernels.h"

#define NIBBLE_INLINE inline __attribute__((always_inline))

/// What the instruction sets with 256-bit registers have in common: half a line. Needs AVX2, FMA
/// and F16C.
namespace nibble::ops::cpu {
namespace {

struct Isa256 {
  static constexpr std::int64_t kLanes = 8;
  static constexpr bool kLifts = false;
  using Int = __m256i;
  using Float = __m256;
  using Line = __m256i;

  static NIBBLE_INLINE Int load(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const Int*>(p));
  }
  static NIBBLE_INLINE Int low_nibbles(Int v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
  static NIBBLE_INLINE Int high_nibbles(Int v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }
  static NIBBLE_INLINE Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static NIBBLE_INLINE Int lift(Int total, float) { return total; }
  static NIBBLE_INLINE std::int64_t sum_of_lanes(Int v) {
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i pair = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32(pair, 0xb1)));
  }
  /// The first 8 bytes of each half.
  static NIBBLE_INLINE void put_halves(Int v, std::int32_t* words) {
    const Int packed = _mm256_permute4x64_epi64(v, 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words), _mm256_castsi256_si128(packed));
  }

  static NIBBLE_INLINE Float all(float v) { return _mm256_set1_ps(v); }
  static NIBBLE_INLINE Float load(const float* p) { return _mm256_loadu_ps(p); }
  static NIBBLE_INLINE Float load(const core::Fp16* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static NIBBLE_INLINE void store(float* p, Float v) { _mm256_storeu_ps(p, v); }
  static NIBBLE_INLINE void store(std::int32_t* p, Int v) {
    _mm256_storeu_si256(reinterpret_cast<Int*>(p), v);
  }
  static NIBBLE_INLINE Float to_float(Int v) { return _mm256_cvtepi32_ps(v); }
  static NIBBLE_INLINE Int to_int(Float v) { return _mm256_cvtps_epi32(v); }
  static NIBBLE_INLINE Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static NIBBLE_INLINE Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static NIBBLE_INLINE Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
  static NIBBLE_INLINE Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
  /// b, or 0 where a is 0.
  static NIBBLE_INLINE Float zero_unless(Float a, Float b) {
    return _mm256_and_ps(_mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_NEQ_UQ), b);
  }
  static NIBBLE_INLINE float largest_lane(Float v) {
    const __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
  }
  static NIBBLE_INLINE core::Fp16 narrow(float v) {
    const __m128i half = _mm_cvtps_ph(_mm_set_ss(v), _MM_FROUND_TO_NEAREST_INT);
    return core::Fp16{static_cast<std::uint16_t>(_mm_extract_epi16(half, 0))};
  }
  static NIBBLE_INLINE float widen(core::Fp16 v) { return _cvtsh_ss(v.bits); }
};

}  // namespace
}  // namespace nibble::ops::cpu
