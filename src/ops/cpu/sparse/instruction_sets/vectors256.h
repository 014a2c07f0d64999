#pragma once

#include <cstdint>

#include "ops/cpu/packed/lanes256.h"
#include "ops/cpu/sparse/instruction_sets/vector_loads.h"

/// Vectors for the loops over streams and tiles (rows/row_loops.h, tiles/tile_loops.h): two of 8
/// lanes of 32 bits. Two products of nibbles fit in 16 bits: 2 x 15 x 127 = 3810. Codes of 8 bits
/// are widened first, those of even inputs and of odd ones apart. Entries of books keep their sign,
/// which moves to the weight from the activation: 2 x 127 x 128 = 32512 fits, too. Needs AVX2, FMA
/// and F16C.
namespace nibble::ops::cpu {
namespace {

/// For each mask of 8 lanes: how many lanes below each one are kept; -1 where it is not itself.
struct ExpandTable {
  alignas(64) std::int8_t lanes[256][8];

  constexpr ExpandTable() : lanes() {
    for (int mask = 0; mask < 256; ++mask) {
      std::int8_t kept = 0;
      for (int lane = 0; lane < 8; ++lane) {
        const bool is_kept = (mask >> lane & 1) != 0;
        lanes[mask][lane] = is_kept ? kept++ : std::int8_t{-1};
      }
    }
  }
};
inline constexpr ExpandTable kExpand;

struct Vectors256 : Lanes256 {  // loads stand on no border
  static constexpr int kVectors = 2;
  static constexpr int kTokens = 2;

  static NIBBLE_INLINE Int load(const void* p) { return load_32(p); }
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
  /// A book's entries for look_up(), which gives those of codes.
  static NIBBLE_INLINE Int table(const std::uint8_t* p) {
    return _mm256_broadcastsi128_si256(load_16(p));
  }
  static NIBBLE_INLINE void add_entry_product(Int& sum, Int w, Int a) {
    const Int pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(w, a));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static NIBBLE_INLINE Int without_entry_zero(Int sum, Int) { return sum; }
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

  /// Lanes 0, 0, .. 1, 1, ..: each of the first so many times.
  template <int Times>
  static NIBBLE_INLINE Int repeat(Int v) {
    return Times == 1 ? v : _mm256_permutevar8x32_epi32(v, load_32(kRepeated<Times>.lanes));
  }
  template <int Times>
  static NIBBLE_INLINE Float repeat(Float v) {
    return _mm256_castsi256_ps(repeat<Times>(_mm256_castps_si256(v)));
  }

  /// Lanes of half a window that are kept.
  class Kept {
   public:
    explicit NIBBLE_INLINE Kept(std::uint32_t mask)
        : lanes_(_mm256_cvtepi8_epi32(
              _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kExpand.lanes[mask])))) {}
    /// The first lanes of v in the place of those that are kept, 0 in the others.
    NIBBLE_INLINE Int expand(Int v) const {
      return _mm256_andnot_si256(gone(), _mm256_permutevar8x32_epi32(v, lanes_));
    }
    NIBBLE_INLINE Float expand(Float v) const {
      return _mm256_castsi256_ps(expand(_mm256_castps_si256(v)));
    }
    /// Those that are kept, 0 in the others.
    NIBBLE_INLINE Float load(const std::int32_t* p) const {
      return _mm256_castsi256_ps(_mm256_andnot_si256(gone(), load_32(p)));
    }

   private:
    NIBBLE_INLINE Int gone() const { return _mm256_srai_epi32(lanes_, 31); }

    Int lanes_;
  };

  using Total = Float[2];
  static NIBBLE_INLINE float sum(const Total& total) { return sum_of(total[0], total[1]); }
};

}  // namespace
}  // namespace nibble::ops::cpu
