#include "ops/cpu/sparse/unit_tiles.h"

// A line of a unit is one register, each lane of it a row. vpdpbusd adds four products of bytes in
// 32 bits, vpdpwssd two of 16 bits.
namespace nibble::ops::cpu {
namespace {

struct Avx512Tiles {
  using Int = __m512i;
  using Float = __m512;
  static constexpr int kVectors = 1;
  static constexpr int kTokens = 8;

  static NIBBLE_INLINE Int load_line(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  static NIBBLE_INLINE Int low_nibbles(Int line) {
    return _mm512_and_si512(line, _mm512_set1_epi8(15));
  }
  static NIBBLE_INLINE Int high_nibbles(Int line) {
    return low_nibbles(_mm512_srli_epi16(line, 4));
  }
  static NIBBLE_INLINE Int broadcast(std::int32_t v) { return _mm512_set1_epi32(v); }
  template <int HeldBits>
  static NIBBLE_INLINE void add_product(Int& sum, Int w, Int a) {
    sum = _mm512_dpbusd_epi32(sum, w, a);
  }
  static NIBBLE_INLINE Int words(__m128i bytes, int) { return _mm512_cvtepu8_epi32(bytes); }
  static NIBBLE_INLINE Int subtract(Int sum, Int zero, Int a) {
    return _mm512_sub_epi32(sum, _mm512_madd_epi16(zero, a));
  }

  static NIBBLE_INLINE Float half_scales(const std::uint8_t* p) {
    return _mm512_cvtph_ps(load_32(p));
  }
  static NIBBLE_INLINE Float whole_scales(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_16(p)));
  }
  static NIBBLE_INLINE Float load_floats(const float* p) { return _mm512_loadu_ps(p); }
  static NIBBLE_INLINE Float broadcast(float v) { return _mm512_set1_ps(v); }
  static NIBBLE_INLINE Float to_float(Int v) { return _mm512_cvtepi32_ps(v); }
  static NIBBLE_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static NIBBLE_INLINE void store(float* p, Float v) { _mm512_storeu_ps(p, v); }
};

}  // namespace

void run_tiles_avx512vnni(const SparseWeight& w, const SparseInput& x, std::int64_t begin,
                          std::int64_t end, float* y, std::int64_t ldy) {
  run_tiles<Avx512Tiles>(w, x, begin, end, y, ldy);
}

}  // namespace nibble::ops::cpu
