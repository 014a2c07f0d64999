#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/vector_rows.h"

// vpmaddubsw adds two products in 16 bits: 2 x 15 x 127 = 3810, and the difference of two such
// sums, fit; codes of 8 bits would not.
namespace nibble::ops::cpu {
namespace {

struct Avx2 {
  static NIBBLE_INLINE __m256i nibbles(__m128i codes) {
    const __m256i wide = _mm256_cvtepu8_epi16(codes);
    return _mm256_and_si256(_mm256_or_si256(wide, _mm256_slli_epi16(wide, 4)),
                            _mm256_set1_epi16(0x0f0f));
  }
  static NIBBLE_INLINE __m256i dot(__m256i w, __m256i z, __m256i a) {
    const __m256i pairs = _mm256_sub_epi16(_mm256_maddubs_epi16(w, a), _mm256_maddubs_epi16(z, a));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};

}  // namespace

SparseKernel avx2_sparse_kernel() {
  return {"avx2", "AVX2 with FMA and F16C", [] { return cpu_features().avx2; },
          [](int bits, std::int64_t group) { return bits == 4 && is_whole_halves(group); },
          run_bits<Avx2, 4>};
}

}  // namespace nibble::ops::cpu
