#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/tile_units.h"
#include "ops/cpu/sparse/token_lanes.h"
#include "ops/cpu/sparse/unit_rows.h"

// A vector of a unit is one register, each lane of it a piece. vpdpbusd adds four products of bytes
// in 32 bits. The activations of 16 pieces are found by vpermt2d: they lie within 64 pieces,
// mostly.
namespace nibble::ops::cpu {
namespace {

constexpr int kLine = 16;                    // words
constexpr int kTableWords = 32;              // that vpermt2d chooses from
constexpr int kNearWords = 2 * kTableWords;  // that are always looked through

/// Which words of a part the lanes want, counted from a base.
struct LaneWords {
  __m512i places;
  __mmask16 far;  // of the second half of the near ones
  int last;       // the highest

  NIBBLE_INLINE __m512i of_table(const std::int32_t* at) const {
    return _mm512_permutex2var_epi32(_mm512_load_si512(at), places, _mm512_load_si512(at + kLine));
  }
  NIBBLE_INLINE __m512i find(const std::int32_t* part) const {
    __m512i found = _mm512_mask_mov_epi32(of_table(part), far, of_table(part + kTableWords));
    for (int begin = kNearWords; begin <= last; begin += kTableWords) {
      found = _mm512_mask_mov_epi32(
          found, _mm512_cmpge_epi32_mask(places, _mm512_set1_epi32(begin)), of_table(part + begin));
    }
    return found;
  }
};

struct Avx512Vnni {
  static constexpr int kTokens = 4;
  using Total = __m512;

  /// Counted from a word that begins a line, kLine - 1 at most before the unit's base.
  template <class Form>
  static NIBBLE_INLINE LaneWords lane_words(const Unit<Form>& unit, int half) {
    constexpr int kLast =
        Form::kLayout.entries < kSparseRowLanes ? Form::kLayout.entries - 1 : kSparseRowLanes - 1;
    const int before = static_cast<int>(unit.base() * Form::kShared % kLine);
    const __m512i places =
        _mm512_add_epi32(_mm512_set1_epi32(before), in_pieces<Form>(unit.places(half)));
    const int last =
        before + static_cast<int>(unit.place(half * kSparseRowLanes + kLast) + 1) * Form::kShared -
        1;
    return {places, _mm512_test_epi32_mask(places, _mm512_set1_epi32(kTableWords)), last};
  }
  template <class Form>
  static NIBBLE_INLINE __m512i in_pieces(__m128i places) {
    const __m512i groups = _mm512_cvtepu8_epi32(places);
    if constexpr (Form::kShared == 1) {
      return groups;
    }
    constexpr int kShift = Form::kShared == 2 ? 1 : 2;
    return _mm512_add_epi32(_mm512_slli_epi32(groups, kShift),
                            _mm512_load_si512(kLanes<Form::kShared>.pieces));
  }

  template <class Form>
  static NIBBLE_INLINE __m512i load_codes(const Unit<Form>& unit, int half, int quad) {
    const __m512i codes = _mm512_loadu_si512(unit.codes(half, quad));
    if constexpr (Form::kHeldBits == 8) {
      return codes;
    }
    return _mm512_and_si512(unit.is_high(half, quad) ? _mm512_srli_epi16(codes, 4) : codes,
                            _mm512_set1_epi8(15));
  }

  template <int M, class Form>
  static NIBBLE_INLINE void add_unit(const Unit<Form>& unit, const SparseInput& x,
                                     std::int64_t token, Total (&total)[M]) {
    const std::int64_t part = x.pieces.part;
    const std::int32_t* const first =
        x.pieces.words + token * x.pieces.stride + unit.base() * Form::kShared / kLine * kLine;
#pragma GCC unroll 2
    for (int half = 0; half < Form::kHalves; ++half) {
      const LaneWords lanes = lane_words(unit, half);
      const __m512i zeros = _mm512_cvtepu8_epi32(unit.zeros(half));
      const __m512 scales = _mm512_insertf32x8(_mm512_castps256_ps512(unit.lane_scales(half, 0)),
                                               unit.lane_scales(half, 8), 1);
      __m512i weights[Form::kQuads];
#pragma GCC unroll 4
      for (int q = 0; q < Form::kQuads; ++q) {
        weights[q] = load_codes(unit, half, q);
      }
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        const std::int32_t* at = first + i * x.pieces.stride;
        __m512i sums = _mm512_setzero_si512();
#pragma GCC unroll 4
        for (int q = 0; q < Form::kQuads; ++q, at += part) {
          sums = _mm512_dpbusd_epi32(sums, weights[q], lanes.find(at));
        }
        const __m512 scale = _mm512_mul_ps(scales, _mm512_castsi512_ps(lanes.find(at)));
        // Sums of codes fit in 16 bits, with their sign; above those of a zero there is nothing.
        sums = _mm512_sub_epi32(sums, _mm512_madd_epi16(zeros, lanes.find(at + part)));
        total[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, total[i]);
      }
    }
  }

  static NIBBLE_INLINE float sum(Total total) {
    return sum_of(_mm512_castps512_ps256(total), _mm512_extractf32x8_ps(total, 1));
  }
};

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  if (w.rows != 1) {
    return run_tiles_avx512vnni(w, x, begin, end, y, ldy);
  }
  return w.held_bits == 4 ? run_held<Avx512Vnni, 4>(w, x, begin, end, y, ldy)
                          : run_held<Avx512Vnni, 8>(w, x, begin, end, y, ldy);
}

}  // namespace

SparseKernel avx512vnni_sparse_kernel() {
  return {"avx512vnni",
          "AVX512-VNNI (with AVX512 F, BW, DQ, VL)",
          [] { return cpu_features().avx512vnni; },
          [](int, int) { return true; },
          run,
          true,
          run_token_lanes_avx512vnni};
}

}  // namespace nibble::ops::cpu
