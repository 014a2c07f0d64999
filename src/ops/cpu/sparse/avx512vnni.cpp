#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/vector_rows.h"

// vpdpbusd on vectors of 256 bits: activations of two groups come together by one insertion, which
// for 512 bits would take three.
namespace nibble::ops::cpu {
namespace {

struct Avx512Vnni {
  static NIBBLE_INLINE __m256i nibbles(__m128i codes) {
    constexpr int kOrThenAnd = 0xa8;  // (a | b) & c
    const __m256i wide = _mm256_cvtepu8_epi16(codes);
    return _mm256_ternarylogic_epi32(wide, _mm256_slli_epi16(wide, 4), _mm256_set1_epi16(0x0f0f),
                                     kOrThenAnd);
  }
  static NIBBLE_INLINE __m256i dot(__m256i w, __m256i z, __m256i a) {
    const __m256i none = _mm256_setzero_si256();
    return _mm256_sub_epi32(_mm256_dpbusd_epi32(none, w, a), _mm256_dpbusd_epi32(none, z, a));
  }
};

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  return w.bits == 4 ? run_bits<Avx512Vnni, 4>(w, x, begin, end, y, ldy)
                     : run_bits<Avx512Vnni, 8>(w, x, begin, end, y, ldy);
}

}  // namespace

SparseKernel avx512vnni_sparse_kernel() {
  return {"avx512vnni", "AVX512-VNNI (with AVX512 F, BW, DQ, VL)",
          [] { return cpu_features().avx512vnni; },
          [](int bits, std::int64_t group) {
            return (bits == 4 || bits == 8) && is_whole_halves(group);
          },
          run};
}

}  // namespace nibble::ops::cpu
