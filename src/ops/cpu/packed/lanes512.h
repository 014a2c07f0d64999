#pragma once

#include <cstdint>

#include <immintrin.h>

#include "ops/cpu/packed/vector_lanes.h"

/// 512-bit vectors for the kernels of tile_kernel.h: 16 rows x 4 inputs, one line. Needs AVX512 F,
/// BW.
namespace nibble::ops::cpu {
namespace {

struct Registers512 {
  using Int = __m512i;
  using Float = __m512;
};

struct Lanes512 : VectorLanes<Registers512> {
  static constexpr bool kPairsTokens = false;

  static NIBBLE_INLINE Int load(const void* p) { return _mm512_load_si512(p); }
  static NIBBLE_INLINE void store(std::uint8_t* p, Int v) { _mm512_store_si512(p, v); }
  static NIBBLE_INLINE Int low_nibbles(Int v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
  static NIBBLE_INLINE Int high_nibbles(Int v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

  static NIBBLE_INLINE Int broadcast_table(const std::uint8_t* p) {
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static NIBBLE_INLINE Int look_up(Int table, Int codes) {
    return _mm512_shuffle_epi8(table, codes);
  }

  /// by_row[r]: the tables of rows r, 4 + r, 8 + r and 12 + r, one in each 16-byte lane.
  struct RowTables {
    Int by_row[4];
  };
  static NIBBLE_INLINE RowTables load_row_tables(const std::uint8_t* p) {
    const auto* rows = reinterpret_cast<const __m128i*>(p);
    RowTables tables = {};
    for (int r = 0; r < 4; ++r) {
      Int t = _mm512_castsi128_si512(_mm_load_si128(rows + r));
      t = _mm512_inserti32x4(t, _mm_load_si128(rows + 4 + r), 1);
      t = _mm512_inserti32x4(t, _mm_load_si128(rows + 8 + r), 2);
      tables.by_row[r] = _mm512_inserti32x4(t, _mm_load_si128(rows + 12 + r), 3);
    }
    return tables;
  }
  static NIBBLE_INLINE Int look_up(const RowTables& tables, Int codes) {
    constexpr __mmask64 kFirstRow =
        0x000f000f000f000full;  // the 4 bytes of row 0 of each 16-byte lane
    Int bytes = look_up(tables.by_row[0], codes);
    bytes = _mm512_mask_shuffle_epi8(bytes, kFirstRow << 4, tables.by_row[1], codes);
    bytes = _mm512_mask_shuffle_epi8(bytes, kFirstRow << 8, tables.by_row[2], codes);
    return _mm512_mask_shuffle_epi8(bytes, kFirstRow << 12, tables.by_row[3], codes);
  }

  /// -zero in the low 16 bits of each lane, 0 above: what multiply_zero() wants.
  static NIBBLE_INLINE Int negative_zero(int zero) { return _mm512_set1_epi32(-zero & 0xffff); }
  static NIBBLE_INLINE Int negative_zeros(const std::uint8_t* p) {
    const Int zeros = _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_and_si512(_mm512_sub_epi32(_mm512_setzero_si512(), zeros),
                            _mm512_set1_epi32(0xffff));
  }
  /// -zero * a_sum; |a_sum| < 2^15 because groups have at most kMaxGroup inputs.
  static NIBBLE_INLINE Int multiply_zero(Int zero, Int a_sum) {
    return _mm512_madd_epi16(zero, a_sum);
  }

  static NIBBLE_INLINE Float load_scales(const std::uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static NIBBLE_INLINE Float load_multiples(const std::int8_t* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static NIBBLE_INLINE Float load_floats(const float* p) { return _mm512_load_ps(p); }
  static NIBBLE_INLINE void store(float* p, Float v) { _mm512_storeu_ps(p, v); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
};

}  // namespace
}  // namespace nibble::ops::cpu
