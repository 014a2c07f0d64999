#include <cstring>

#include <immintrin.h>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace avx512 {

constexpr VectorShape kShape = {
    .isa = "avx512", .width = 16, .mixed = 4, .dot_columns = 6, .score_rows = 4};

// Magnitudes stand as float16 of 2^-8 times the number (its bias is 15, not 7), NaN as NaN.
inline __m512 widen_eighths(__m128i codes) {
  const __m256i shifted = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  const __m256i largest = _mm256_set1_epi16(0x3f80);
  const __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(shifted, largest), largest);
  const __m256i halves = _mm256_or_si256(_mm256_and_si256(shifted, _mm256_set1_epi16(-0x4080)),
                                         _mm256_and_si256(nan, _mm256_set1_epi16(0x7c00)));
  return _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(256.0f));
}

#include "ops/cpu/vector/avx512.inc"

}  // namespace avx512

const VectorKernels& vector_kernels_avx512() {
  return avx512::kKernels;
}

}  // namespace nibble::ops::cpu
