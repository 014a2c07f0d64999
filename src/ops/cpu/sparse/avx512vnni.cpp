#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/tile_units.h"
#include "ops/cpu/sparse/token_lanes.h"
#include "ops/cpu/sparse/unit_rows.h"

// A vector of a unit is one register. vpdpbusd adds four products of bytes in 32 bits.
namespace nibble::ops::cpu {
namespace {

constexpr int kVectors = kSparseUnit / kSparseVector;

struct Avx512Vnni {
  static constexpr int kTokens = 4;
  struct Total {
    __m512 even;
    __m512 odd;
  };

  /// Sums over quads of (w - z) * a.
  static NIBBLE_INLINE __m512i dot(__m512i w, __m512i z, __m512i a) {
    const __m512i none = _mm512_setzero_si512();
    return _mm512_sub_epi32(_mm512_dpbusd_epi32(none, w, a), _mm512_dpbusd_epi32(none, z, a));
  }

  template <class Form>
  static NIBBLE_INLINE __m512i load_codes(const Unit<Form>& unit, int vector) {
    if constexpr (Form::kHeldBits == 8) {
      return _mm512_loadu_si512(unit.codes() + vector * kSparseVector);
    }
    const __m512i both = _mm512_loadu_si512(unit.codes() + vector / 2 * kSparseVector);
    return _mm512_and_si512(vector % 2 == 0 ? both : _mm512_srli_epi16(both, 4),
                            _mm512_set1_epi8(15));
  }

  template <class Form>
  static NIBBLE_INLINE __m512i activations(const Unit<Form>& unit, const std::int8_t* codes,
                                           int first) {
    if constexpr (Form::kGroup == kSparseVector) {
      return _mm512_loadu_si512(codes + unit.place(first / Form::kGroup) * Form::kGroup);
    }
    return _mm512_inserti64x4(_mm512_castsi256_si512(codes_of_two(unit, codes, first)),
                              codes_of_two(unit, codes, first + 2 * kSparsePiece), 1);
  }
  /// A byte for each weight of vectors 0 and 1, or of 2 and 3, in each part of 16 bytes.
  template <class Form>
  static NIBBLE_INLINE __m512i load_zeros(const Unit<Form>& unit, int half) {
    const __m512i all = _mm512_broadcast_i32x4(load_16(unit.zeros(half)));
    if constexpr (Form::kHeldBits == 8) {
      return all;
    }
    return _mm512_and_si512(half == 0 ? all : _mm512_srli_epi16(all, 4), _mm512_set1_epi8(15));
  }

  /// Of activations, for 16 entries, from the one `first` on. They lie within 64 groups, mostly.
  template <class Form>
  static NIBBLE_INLINE __m512 input_scales(const Unit<Form>& unit, const float* scales, int first) {
    constexpr int kLast = Form::kLayout.entries < 16 ? Form::kLayout.entries - 1 : 15;
    const __m512i places = _mm512_cvtepu8_epi32(load_16(unit.bytes + first));
    const auto of_two = [&](const float* at) {
      return _mm512_permutex2var_ps(_mm512_loadu_ps(at), places, _mm512_loadu_ps(at + 16));
    };
    __m512 found = _mm512_mask_mov_ps(
        of_two(scales), _mm512_test_epi32_mask(places, _mm512_set1_epi32(32)), of_two(scales + 32));
    for (int begin = 64; begin <= static_cast<int>(unit.place(first + kLast)); begin += 32) {
      found = _mm512_mask_mov_ps(found, _mm512_cmpge_epi32_mask(places, _mm512_set1_epi32(begin)),
                                 of_two(scales + begin));
    }
    return found;
  }

  template <int M, class Form>
  static NIBBLE_INLINE void add_unit(const Unit<Form>& unit, const UnitInput& x,
                                     const InputStrides& strides, Total (&total)[M]) {
    constexpr int kSixteens = (Form::kLayout.entries + 15) / 16;
    const auto& entries = kEntries<Form::kGroup>;
    __m512 scales[M][kSixteens];  // of an entry and its activations
#pragma GCC unroll 2
    for (int s = 0; s < kSixteens; ++s) {
      const __m512 of_entries = _mm512_insertf32x8(_mm512_castps256_ps512(unit.scales(16 * s)),
                                                   unit.scales(16 * s + 8), 1);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        scales[i][s] =
            _mm512_mul_ps(of_entries, input_scales(unit, x.scales + i * strides.scales, 16 * s));
      }
    }
    const __m512i zeros[2] = {load_zeros(unit, 0), load_zeros(unit, 1)};
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512i w = load_codes(unit, v);
      const __m512i z = _mm512_shuffle_epi8(
          zeros[v / 2], _mm512_load_si512(entries.bytes + v % 2 * kSparseVector));
      const __m512i quads = _mm512_load_si512(entries.quads + v * (kSparseVector / kSparseQuad));
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        const __m512i a = activations(unit, x.codes + i * strides.codes, v * kSparseVector);
        const __m512 scale = _mm512_permutexvar_ps(quads, scales[i][v * kSixteens / kVectors]);
        __m512& sums = v % 2 == 0 ? total[i].even : total[i].odd;
        sums = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot(w, z, a)), scale, sums);
      }
    }
  }

  static NIBBLE_INLINE float sum(const Total& total) {
    const __m512 both = _mm512_add_ps(total.even, total.odd);
    return sum_of(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
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
          run_token_lanes_avx512vnni};
}

}  // namespace nibble::ops::cpu
