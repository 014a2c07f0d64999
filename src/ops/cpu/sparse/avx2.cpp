#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/vector_rows.h"

// Half of the even pieces is a vector, and half of the odd ones. vpmaddubsw adds two products in 16
// bits: 2 x 15 x 127 = 3810, and the difference of two such sums, fit; codes of 8 bits would not.
namespace nibble::ops::cpu {
namespace {

struct Avx2 {
  static constexpr int kTokens = 2;
  struct Total {
    __m256 sums[2][2];  // even and odd pieces, halves
  };

  /// Sums over quads of (w - z) * a.
  static NIBBLE_INLINE __m256i dot(__m256i w, __m256i z, __m256i a) {
    const __m256i pairs = _mm256_sub_epi16(_mm256_maddubs_epi16(w, a), _mm256_maddubs_epi16(z, a));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }

  template <int M, int Group>
  static NIBBLE_INLINE void add_step(const Step<Group, 4>& step, const std::uint8_t* tokens,
                                     std::int64_t token_bytes, Total (&total)[M]) {
    const auto& lanes = kLanes<Group>;
    const __m256 scales = step.load_scales();
    const __m256i zeros = _mm256_broadcastsi128_si256(step.load_zeros());
    const __m256i nibbles = _mm256_set1_epi8(15);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i both = load_32(step.codes + half * 32);
      const __m256i low = _mm256_and_si256(both, nibbles);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibbles);
      const __m256i w[2] = {_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)};
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd) {
        const int first = odd * 64 + half * 32;  // in the tables
        const __m256i z = _mm256_shuffle_epi8(zeros, load_32(lanes.bytes + first));
        const __m256 scale = _mm256_permutevar8x32_ps(
            scales, _mm256_load_si256(reinterpret_cast<const __m256i*>(lanes.quads + first / 4)));
        const int piece = half * 4 + odd;
#pragma GCC unroll 2
        for (int i = 0; i < M; ++i) {
          const std::uint8_t* a = step.block(tokens + i * token_bytes, piece);
          const std::uint8_t* b = step.block(tokens + i * token_bytes, piece + 2);
          __m256& sums = total[i].sums[odd][half];
          sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot(w[odd], z, codes_of(a, b))),
                                 _mm256_mul_ps(scale, scales_of(a, b)), sums);
        }
      }
    }
  }

  static NIBBLE_INLINE float sum(const Total& total) {
    return sum_of(_mm256_add_ps(total.sums[0][0], total.sums[1][0]),
                  _mm256_add_ps(total.sums[0][1], total.sums[1][1]));
  }
};

}  // namespace

SparseKernel avx2_sparse_kernel() {
  return {"avx2", "AVX2 with FMA and F16C", [] { return cpu_features().avx2; },
          [](int bits, std::int64_t group) { return bits == 4 && is_whole_pieces(group); },
          run_bits<Avx2, 4>};
}

}  // namespace nibble::ops::cpu
