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

  static NIBBLE_INLINE Int broadcast_table(const std::uint8_t* p) {
    return _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static NIBBLE_INLINE Int look_up(Int table, Int codes) {
    return _mm512_shuffle_epi8(table, codes);
  }

  /// Four bytes for each row of every 16-byte lane.
  static NIBBLE_INLINE Int of_rows(int row0, int row1, int row2, int row3) {
    return _mm512_broadcast_i32x4(_mm_setr_epi32(row0, row1, row2, row3));
  }

  /// Tables of rows, for look-ups by byte shuffles inside lanes of 16 bytes, which hold 4 rows.
  /// Four entries a row: a lane has the tables of its rows, and the row goes into the code.
  struct RowTables2 {
    Int entries;
  };
  static NIBBLE_INLINE RowTables2 load_row_tables(const std::uint8_t* p, Width<2>) {
    return {load(p)};
  }
  static NIBBLE_INLINE Int look_up(const RowTables2& tables, Int codes) {
    const Int first = of_rows(0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c);
    return look_up(tables.entries, _mm512_or_si512(codes, first));
  }
  /// Eight: by_half[h] has those of rows 2h and 2h + 1 of each lane.
  struct RowTables3 {
    Int by_half[2];
  };
  static NIBBLE_INLINE RowTables3 load_row_tables(const std::uint8_t* p, Width<3>) {
    const Int low = load(p);
    const Int high = load(p + sizeof(Int));
    return {{_mm512_shuffle_i32x4(low, high, 0x88), _mm512_shuffle_i32x4(low, high, 0xdd)}};
  }
  static NIBBLE_INLINE Int look_up(const RowTables3& tables, Int codes) {
    constexpr __mmask64 kSecondHalf = 0xff00ff00ff00ff00;
    const Int places = _mm512_or_si512(codes, of_rows(0, 0x08080808, 0, 0x08080808));
    return _mm512_mask_shuffle_epi8(look_up(tables.by_half[0], places), kSecondHalf,
                                    tables.by_half[1], places);
  }
  /// Sixteen: by_row[r] has those of row r of each lane.
  struct RowTables4 {
    Int by_row[4];
  };
  static NIBBLE_INLINE RowTables4 load_row_tables(const std::uint8_t* p, Width<4>) {
    const auto* rows = reinterpret_cast<const __m128i*>(p);
    RowTables4 tables = {};
    for (int r = 0; r < 4; ++r) {
      Int t = _mm512_castsi128_si512(_mm_load_si128(rows + r));
      t = _mm512_inserti32x4(t, _mm_load_si128(rows + 4 + r), 1);
      t = _mm512_inserti32x4(t, _mm_load_si128(rows + 8 + r), 2);
      tables.by_row[r] = _mm512_inserti32x4(t, _mm_load_si128(rows + 12 + r), 3);
    }
    return tables;
  }
  static NIBBLE_INLINE Int look_up(const RowTables4& tables, Int codes) {
    constexpr __mmask64 kFirstRow =
        0x000f000f000f000full;  // the 4 bytes of row 0 of each 16-byte lane
    Int bytes = look_up(tables.by_row[0], codes);
    bytes = _mm512_mask_shuffle_epi8(bytes, kFirstRow << 4, tables.by_row[1], codes);
    bytes = _mm512_mask_shuffle_epi8(bytes, kFirstRow << 8, tables.by_row[2], codes);
    return _mm512_mask_shuffle_epi8(bytes, kFirstRow << 12, tables.by_row[3], codes);
  }

  /// The byte of each of 16 rows, for all inputs of a quad.
  static NIBBLE_INLINE Int bytes_of_rows(const std::uint8_t* p) {
    const Int bytes = _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
    return _mm512_shuffle_epi8(bytes, of_rows(0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c));
  }
  static NIBBLE_INLINE Int subtract_bytes(Int a, Int b) { return _mm512_sub_epi8(a, b); }

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

  /// p [kLanes], on a border of 64 bytes. Other threads see it behind fence().
  static NIBBLE_INLINE void store_past_caches(float* p, Float v) { _mm512_stream_ps(p, v); }
  static NIBBLE_INLINE void fence() { _mm_sfence(); }
};

}  // namespace
}  // namespace nibble::ops::cpu
