#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/tile_units.h"
#include "ops/cpu/sparse/unit_rows.h"

// Half of a vector of a unit is one register. vpmaddubsw adds two products in 16 bits: 2 x 15 x 127
// = 3810, and the difference of two such sums, fit; codes of 8 bits would not.
namespace nibble::ops::cpu {
namespace {

constexpr int kRegister = kSparseVector / 2;  // weights

struct Avx2 {
  static constexpr int kTokens = 2;
  struct Total {
    __m256 sums[2][2];  // even and odd vectors, halves
  };

  /// Sums over quads of (w - z) * a.
  static NIBBLE_INLINE __m256i dot(__m256i w, __m256i z, __m256i a) {
    const __m256i pairs = _mm256_sub_epi16(_mm256_maddubs_epi16(w, a), _mm256_maddubs_epi16(z, a));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }

  /// The scales of eight quads of weights, the first of which is `quad`: they are of four entries
  /// at most.
  template <class Form>
  static NIBBLE_INLINE __m256 weight_scales(const Unit<Form>& unit, int quad) {
    const auto& quads = kEntries<Form::kGroup>.quads;
    const int first = quads[quad];
    return _mm256_permutevar8x32_ps(
        unit.scales(first), _mm256_sub_epi32(load_32(quads + quad), _mm256_set1_epi32(first)));
  }

  /// The same of their activations.
  template <class Form>
  static NIBBLE_INLINE __m256 input_scales(const Unit<Form>& unit, const float* scales, int quad) {
    constexpr int kOfEntry = Form::kGroup / kSparseQuad;
    const auto at = [&](int i) { return scales + unit.place((quad + i) / kOfEntry); };
    if constexpr (kOfEntry >= 8) {
      return _mm256_broadcast_ss(at(0));
    }
    if constexpr (kOfEntry == 4) {
      return _mm256_set_m128(_mm_broadcast_ss(at(4)), _mm_broadcast_ss(at(0)));
    }
    return _mm256_setr_ps(*at(0), *at(0), *at(2), *at(2), *at(4), *at(4), *at(6), *at(6));
  }

  template <int M, class Form>
  static NIBBLE_INLINE void add_unit(const Unit<Form>& unit, const UnitInput& x,
                                     const InputStrides& strides, Total (&total)[M]) {
    const auto& entries = kEntries<Form::kGroup>;
#pragma GCC unroll 8
    for (int r = 0; r < kSparseUnit / kRegister; ++r) {
      const int v = r / 2;
      const int quad = r * kRegister / kSparseQuad;
      const __m256i both = load_32(unit.codes() + v / 2 * kSparseVector + r % 2 * kRegister);
      const __m256i w =
          _mm256_and_si256(v % 2 == 0 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
      const __m256i zeros = _mm256_broadcastsi128_si256(load_16(unit.zeros(v / 2)));
      const __m256i z = _mm256_shuffle_epi8(
          _mm256_and_si256(v < 2 ? zeros : _mm256_srli_epi16(zeros, 4), _mm256_set1_epi8(15)),
          load_32(entries.bytes + r * kRegister % (2 * kSparseVector)));
      const __m256 scale = weight_scales(unit, quad);
#pragma GCC unroll 2
      for (int i = 0; i < M; ++i) {
        const __m256i a = codes_of_two(unit, x.codes + i * strides.codes, r * kRegister);
        const __m256 a_scale = input_scales(unit, x.scales + i * strides.scales, quad);
        __m256& sums = total[i].sums[v % 2][r % 2];
        sums =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot(w, z, a)), _mm256_mul_ps(scale, a_scale), sums);
      }
    }
  }

  static NIBBLE_INLINE float sum(const Total& total) {
    return sum_of(_mm256_add_ps(total.sums[0][0], total.sums[1][0]),
                  _mm256_add_ps(total.sums[0][1], total.sums[1][1]));
  }
};

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  return w.rows == 1 ? run_held<Avx2, 4>(w, x, begin, end, y, ldy)
                     : run_tiles_avx2(w, x, begin, end, y, ldy);
}

}  // namespace

SparseKernel avx2_sparse_kernel() {
  return {"avx2", "AVX2 with FMA and F16C", [] { return cpu_features().avx2; },
          [](int held_bits, int rows) { return held_bits == 4 || rows != 1; }, run};
}

}  // namespace nibble::ops::cpu
