#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/vector_rows.h"

// The even pieces of a step are a vector, and the odd ones. vpdpbusd adds four products of bytes in
// 32 bits.
namespace nibble::ops::cpu {
namespace {

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

  /// Codes of the even and of the odd pieces.
  template <int Bits>
  static NIBBLE_INLINE void load_codes(const std::uint8_t* codes, __m512i& even, __m512i& odd) {
    const __m512i first = _mm512_loadu_si512(codes);
    if constexpr (Bits == 4) {
      const __m512i nibbles = _mm512_set1_epi8(15);
      const __m512i low = _mm512_and_si512(first, nibbles);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(first, 4), nibbles);
      even = _mm512_unpacklo_epi8(low, high);
      odd = _mm512_unpackhi_epi8(low, high);
    } else {
      const __m512i second = _mm512_loadu_si512(codes + 64);
      even = _mm512_shuffle_i32x4(first, second, 0x88);
      odd = _mm512_shuffle_i32x4(first, second, 0xdd);
    }
  }

  /// The pieces `piece` + 0, 2, 4, 6.
  template <int Group, int Bits>
  static NIBBLE_INLINE __m512 product(const Step<Group, Bits>& step, const std::uint8_t* token,
                                      int piece, __m512i w, __m512i z, __m512 scale, __m512 total) {
    const std::uint8_t* a = step.block(token, piece);
    const std::uint8_t* b = step.block(token, piece + 2);
    const std::uint8_t* c = step.block(token, piece + 4);
    const std::uint8_t* d = step.block(token, piece + 6);
    const __m512i codes =
        _mm512_inserti64x4(_mm512_castsi256_si512(codes_of(a, b)), codes_of(c, d), 1);
    const __m512 scales =
        _mm512_insertf32x8(_mm512_castps256_ps512(scales_of(a, b)), scales_of(c, d), 1);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot(w, z, codes)), _mm512_mul_ps(scale, scales),
                           total);
  }

  template <int M, int Group, int Bits>
  static NIBBLE_INLINE void add_step(const Step<Group, Bits>& step, const std::uint8_t* tokens,
                                     std::int64_t token_bytes, Total (&total)[M]) {
    const auto& lanes = kLanes<Group>;
    const __m512 scales = _mm512_castps256_ps512(step.load_scales());
    const __m512i zeros = _mm512_broadcast_i32x4(step.load_zeros());
    __m512i even;
    __m512i odd;
    load_codes<Bits>(step.codes, even, odd);
    const auto zeros_of = [&](int at) {
      return _mm512_shuffle_epi8(zeros, _mm512_load_si512(lanes.bytes + at));
    };
    const auto scales_at = [&](int at) {
      return _mm512_permutexvar_ps(_mm512_load_si512(lanes.quads + at), scales);
    };
    const __m512i even_zeros = zeros_of(0);
    const __m512i odd_zeros = zeros_of(64);
    const __m512 even_scales = scales_at(0);
    const __m512 odd_scales = scales_at(16);
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) {
      const std::uint8_t* token = tokens + i * token_bytes;
      total[i].even = product(step, token, 0, even, even_zeros, even_scales, total[i].even);
      total[i].odd = product(step, token, 1, odd, odd_zeros, odd_scales, total[i].odd);
    }
  }

  static NIBBLE_INLINE float sum(const Total& total) {
    const __m512 both = _mm512_add_ps(total.even, total.odd);
    return sum_of(_mm512_castps512_ps256(both), _mm512_extractf32x8_ps(both, 1));
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
            return (bits == 4 || bits == 8) && is_whole_pieces(group);
          },
          run};
}

}  // namespace nibble::ops::cpu
