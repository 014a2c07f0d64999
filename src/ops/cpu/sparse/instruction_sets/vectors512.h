#pragma once

#include <cstdint>

#include "ops/cpu/packed/lanes512.h"
#include "ops/cpu/sparse/instruction_sets/vector_loads.h"

/// Vectors for the loops over streams and tiles (rows/row_loops.h, tiles/tile_loops.h): 16 lanes of
/// 32 bits. vpdpbusd adds four products of bytes in 32 bits, of which one has no sign: entries of
/// books are 128 higher. Needs AVX512 F, BW, DQ, VL and VNNI.
namespace nibble::ops::cpu {
namespace {

struct Vectors512 : Lanes512 {  // loads stand on no border
  static constexpr int kVectors = 1;
  static constexpr int kTokens = 8;

  static NIBBLE_INLINE Int load(const void* p) { return _mm512_loadu_si512(p); }
  template <int HeldBits>
  static NIBBLE_INLINE void add_product(Int& sum, Int w, Int a) {
    sum = _mm512_dpbusd_epi32(sum, w, a);
  }
  /// A book's entries for look_up(), which gives those of codes, 128 higher.
  static NIBBLE_INLINE Int table(const std::uint8_t* p) {
    return _mm512_xor_si512(_mm512_broadcast_i32x4(load_16(p)), _mm512_set1_epi8(-128));
  }
  static NIBBLE_INLINE void add_entry_product(Int& sum, Int w, Int a) {
    sum = _mm512_dpbusd_epi32(sum, w, a);
  }
  static NIBBLE_INLINE Int without_entry_zero(Int sum, Int sums_of_codes) {
    return _mm512_sub_epi32(sum, _mm512_slli_epi32(sums_of_codes, 7));
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

  /// Lanes 0, 0, .. 1, 1, ..: each of the first so many times.
  template <int Times>
  static NIBBLE_INLINE Int repeat(Int v) {
    return Times == 1 ? v : _mm512_permutexvar_epi32(_mm512_load_si512(kRepeated<Times>.lanes), v);
  }
  template <int Times>
  static NIBBLE_INLINE Float repeat(Float v) {
    return _mm512_castsi512_ps(repeat<Times>(_mm512_castps_si512(v)));
  }

  /// Lanes of a window that are kept.
  class Kept {
   public:
    explicit NIBBLE_INLINE Kept(std::uint32_t mask) : mask_(static_cast<__mmask16>(mask)) {}
    /// The first lanes of v in the place of those that are kept, 0 in the others.
    NIBBLE_INLINE Int expand(Int v) const {
      asm("" : "+v"(v));  // in a register: vpexpandd from memory is microcode on AMD's processors
      return _mm512_maskz_expand_epi32(mask_, v);
    }
    NIBBLE_INLINE Float expand(Float v) const {
      return _mm512_castsi512_ps(expand(_mm512_castps_si512(v)));
    }
    /// Those that are kept, 0 in the others.
    NIBBLE_INLINE Float load(const std::int32_t* p) const {
      return _mm512_castsi512_ps(_mm512_maskz_loadu_epi32(mask_, p));
    }

   private:
    __mmask16 mask_;
  };

  using Total = Float[1];
  static NIBBLE_INLINE float sum(const Total& total) {
    return sum_of(_mm512_castps512_ps256(total[0]), _mm512_extractf32x8_ps(total[0], 1));
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
