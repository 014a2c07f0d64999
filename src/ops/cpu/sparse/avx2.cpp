#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/tile_units.h"
#include "ops/cpu/sparse/unit_rows.h"

// Half of a vector of a unit is one register: eight pieces. vpmaddubsw adds two products in 16
// bits. A piece's sum of them is at most 4 x 2 x 15 x 127 = 15240; codes of 8 bits would not fit.
namespace nibble::ops::cpu {
namespace {

constexpr int kRegisterLanes = kSparseRowLanes / 2;

struct Avx2 {
  static constexpr int kTokens = 2;
  struct Total {
    __m256 sums[2];
  };

  /// The zero of each of eight lanes, four times.
  static NIBBLE_INLINE __m256i spread(__m128i zeros) {
    return _mm256_mullo_epi32(_mm256_cvtepu8_epi32(zeros), _mm256_set1_epi32(0x01010101));
  }

  /// Quads of eight pieces: quads[q] has a lane for each piece.
  template <class Form>
  static NIBBLE_INLINE void load_pieces(const std::int8_t* const (&at)[kRegisterLanes],
                                        __m256i (&quads)[Form::kQuads]) {
    const auto two = [&](int low, int high) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(load_16(at[low])), load_16(at[high]),
                                     1);
    };
    if constexpr (Form::kQuads == 4) {
      const __m256i a = two(0, 4);
      const __m256i b = two(1, 5);
      const __m256i c = two(2, 6);
      const __m256i d = two(3, 7);
      const __m256i ab_low = _mm256_unpacklo_epi32(a, b);
      const __m256i ab_high = _mm256_unpackhi_epi32(a, b);
      const __m256i cd_low = _mm256_unpacklo_epi32(c, d);
      const __m256i cd_high = _mm256_unpackhi_epi32(c, d);
      quads[0] = _mm256_unpacklo_epi64(ab_low, cd_low);
      quads[1] = _mm256_unpackhi_epi64(ab_low, cd_low);
      quads[2] = _mm256_unpacklo_epi64(ab_high, cd_high);
      quads[3] = _mm256_unpackhi_epi64(ab_high, cd_high);
    } else {
      const auto four = [&](int i) {  // of pieces i, i + 1, i + 4 and i + 5
        return _mm256_castsi256_ps(
            _mm256_setr_epi64x(load_as<std::int64_t>(at[i]), load_as<std::int64_t>(at[i + 1]),
                               load_as<std::int64_t>(at[i + 4]), load_as<std::int64_t>(at[i + 5])));
      };
      quads[0] = _mm256_castps_si256(_mm256_shuffle_ps(four(0), four(2), 0x88));
      quads[1] = _mm256_castps_si256(_mm256_shuffle_ps(four(0), four(2), 0xdd));
    }
  }

  template <int M, class Form>
  static NIBBLE_INLINE void add_unit(const Unit<Form>& unit, const SparseInput& x,
                                     std::int64_t token, Total (&total)[M]) {
    const std::int64_t base = unit.base();
#pragma GCC unroll 4
    for (int r = 0; r < 2 * Form::kHalves; ++r) {
      const int half = r / 2;
      const int first = r % 2 * kRegisterLanes;
      const __m128i zeros = unit.zeros(half);
      const __m256i z = spread(r % 2 == 0 ? zeros : _mm_unpackhi_epi64(zeros, zeros));
      const __m256 scales = unit.lane_scales(half, first);
      __m256i weights[Form::kQuads];
#pragma GCC unroll 4
      for (int q = 0; q < Form::kQuads; ++q) {
        const __m256i codes = load_32(unit.codes(half, q) + first * kSparseQuad);
        weights[q] = _mm256_and_si256(unit.is_high(half, q) ? _mm256_srli_epi16(codes, 4) : codes,
                                      _mm256_set1_epi8(15));
      }
#pragma GCC unroll 2
      for (int i = 0; i < M; ++i) {
        const std::int8_t* const codes = x.codes + (token + i) * x.code_stride;
        const float* const input_scales = x.scales + (token + i) * x.scale_stride;
        const std::int8_t* at[kRegisterLanes];
        float scale[kRegisterLanes];
#pragma GCC unroll 8
        for (int lane = 0; lane < kRegisterLanes; ++lane) {
          const int piece = half * kSparseRowLanes + first + lane;
          const std::int64_t group = base + unit.place(piece / Form::kShared);
          at[lane] = codes + group * Form::kGroup + piece % Form::kShared * Form::kPiece;
          scale[lane] = input_scales[group];
        }
        __m256i quads[Form::kQuads];
        load_pieces<Form>(at, quads);
        __m256i sums = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int q = 0; q < Form::kQuads; ++q) {
          sums = _mm256_add_epi16(sums, _mm256_sub_epi16(_mm256_maddubs_epi16(weights[q], quads[q]),
                                                         _mm256_maddubs_epi16(z, quads[q])));
        }
        const __m256 of_inputs = _mm256_setr_ps(scale[0], scale[1], scale[2], scale[3], scale[4],
                                                scale[5], scale[6], scale[7]);
        __m256& own = total[i].sums[r % 2];
        own = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_madd_epi16(sums, _mm256_set1_epi16(1))),
                              _mm256_mul_ps(scales, of_inputs), own);
      }
    }
  }

  static NIBBLE_INLINE float sum(const Total& total) {
    return sum_of(total.sums[0], total.sums[1]);
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
