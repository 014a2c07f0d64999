#include "ops/cpu/sparse/unit_tiles.h"

// Half of a line is one register. Two products of nibbles fit in 16 bits: 2 x 15 x 127 = 3810.
// Codes of 8 bits are widened first, those of even inputs and of odd ones apart.
namespace nibble::ops::cpu {
namespace {

struct Avx2Tiles {
  using Int = __m256i;
  using Float = __m256;
  static constexpr int kVectors = 2;
  static constexpr int kTokens = 2;

  static NIBBLE_INLINE Int load_line(const std::uint8_t* p) { return load_32(p); }
  static NIBBLE_INLINE Int low_nibbles(Int line) {
    return _mm256_and_si256(line, _mm256_set1_epi8(15));
  }
  static NIBBLE_INLINE Int high_nibbles(Int line) {
    return low_nibbles(_mm256_srli_epi16(line, 4));
  }
  static NIBBLE_INLINE Int broadcast(std::int32_t v) { return _mm256_set1_epi32(v); }
  template <int HeldBits>
  static NIBBLE_INLINE void add_product(Int& sum, Int w, Int a) {
    if constexpr (HeldBits == 4) {
      const Int pairs = _mm256_maddubs_epi16(w, a);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
      return;
    }
    const Int even = _mm256_madd_epi16(_mm256_and_si256(w, _mm256_set1_epi16(255)),
                                       _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8));
    const Int odd = _mm256_madd_epi16(_mm256_srli_epi16(w, 8), _mm256_srai_epi16(a, 8));
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
  }
  static NIBBLE_INLINE Int words(__m128i bytes, int v) {
    return _mm256_cvtepu8_epi32(v == 0 ? bytes : _mm_unpackhi_epi64(bytes, bytes));
  }
  static NIBBLE_INLINE Int subtract(Int sum, Int zero, Int a) {
    return _mm256_sub_epi32(sum, _mm256_madd_epi16(zero, a));
  }

  static NIBBLE_INLINE Float half_scales(const std::uint8_t* p) {
    return _mm256_cvtph_ps(load_16(p));
  }
  static NIBBLE_INLINE Float whole_scales(const std::uint8_t* p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  static NIBBLE_INLINE Float load_floats(const float* p) { return _mm256_loadu_ps(p); }
  static NIBBLE_INLINE Float broadcast(float v) { return _mm256_set1_ps(v); }
  static NIBBLE_INLINE Float to_float(Int v) { return _mm256_cvtepi32_ps(v); }
  static NIBBLE_INLINE Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static NIBBLE_INLINE void store(float* p, Float v) { _mm256_storeu_ps(p, v); }
};

}  // namespace

void run_tiles_avx2(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                    std::int64_t end, float* y, std::int64_t ldy) {
  run_tiles<Avx2Tiles>(w, x, begin, end, y, ldy);
}

}  // namespace nibble::ops::cpu
