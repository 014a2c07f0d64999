#pragma once

#include <cstdint>

#include <arm_neon.h>

#include "ops/cpu/packed/vector_lanes.h"

/// 128-bit vectors for the kernels of tile_kernel.h: 4 rows x 4 inputs, a quarter of a line. Needs
/// NEON, which every 64-bit ARM has.
namespace nibble::ops::cpu {
namespace {

struct Registers128 {
  using Int = int32x4_t;
  using Float = float32x4_t;
};

struct Lanes128 : VectorLanes<Registers128> {
  static constexpr int kVectors = 4;  // of a block, which is one tile
  static constexpr int kDirectTokens = 4;
  /// The most tokens for which weights are decoded on their way: as AVX2, not timed.
  static std::int64_t direct_limit(std::int64_t /*group_inputs*/) { return 8; }
  static constexpr int kPanelTokens = 4;
  static constexpr std::int64_t kTokenBlock = 64;
  static constexpr int kChains = 16;  // of products: latency 3 or 4, at most four each cycle

  static NIBBLE_INLINE uint8x16_t bytes(Int v) { return vreinterpretq_u8_s32(v); }
  static NIBBLE_INLINE int8x16_t signed_bytes(Int v) { return vreinterpretq_s8_s32(v); }
  static NIBBLE_INLINE Int from_bytes(uint8x16_t v) { return vreinterpretq_s32_u8(v); }

  static NIBBLE_INLINE Int load(const void* p) {
    return from_bytes(vld1q_u8(static_cast<const std::uint8_t*>(p)));
  }
  static NIBBLE_INLINE void store(std::uint8_t* p, Int v) { vst1q_u8(p, bytes(v)); }
  /// As those of all lanes; bytes have shifts of their own here, which leave nothing of neighbours.
  static NIBBLE_INLINE Int field(Int v, int first, int width) {
    const uint8x16_t moved = bytes(v) >> first;
    return from_bytes(first + width == 8 ? moved : moved & in_each_byte((1 << width) - 1));
  }
  static NIBBLE_INLINE Int join(Int low, Int high, int bit) {
    return from_bytes(bytes(low) >> 6 | (bytes(high) >> (bit - 2) & in_each_byte(4)));
  }

  static NIBBLE_INLINE Int broadcast_table(const std::uint8_t* p) { return load(p); }
  static NIBBLE_INLINE Int look_up(Int table, Int codes) {
    return from_bytes(vqtbl1q_u8(bytes(table), bytes(codes)));
  }

  /// Four bytes for each row.
  static NIBBLE_INLINE Int of_rows(int row0, int row1, int row2, int row3) {
    return Int{row0, row1, row2, row3};
  }
  /// The byte of each of 4 rows, for all inputs of a quad.
  static NIBBLE_INLINE Int bytes_of_rows(const std::uint8_t* p) {
    std::int32_t rows = 0;
    __builtin_memcpy(&rows, p, sizeof(rows));
    return look_up(broadcast(rows), of_rows(0x00000000, 0x01010101, 0x02020202, 0x03030303));
  }

  /// The tables of the 4 rows, one after another: 16, 32 or 64 entries for one look-up.
  struct RowTables2 {
    uint8x16_t entries;
  };
  using RowTables3 = uint8x16x2_t;
  using RowTables4 = uint8x16x4_t;
  static NIBBLE_INLINE RowTables2 load_row_tables(const std::uint8_t* p, Width<2>) {
    return {vld1q_u8(p)};
  }
  static NIBBLE_INLINE RowTables3 load_row_tables(const std::uint8_t* p, Width<3>) {
    return vld1q_u8_x2(p);
  }
  static NIBBLE_INLINE RowTables4 load_row_tables(const std::uint8_t* p, Width<4>) {
    return vld1q_u8_x4(p);
  }
  static NIBBLE_INLINE Int look_up(const RowTables2& tables, Int codes) {
    return from_bytes(vqtbl1q_u8(tables.entries, places(codes, 4)));
  }
  static NIBBLE_INLINE Int look_up(const RowTables3& tables, Int codes) {
    return from_bytes(vqtbl2q_u8(tables, places(codes, 8)));
  }
  static NIBBLE_INLINE Int look_up(const RowTables4& tables, Int codes) {
    return from_bytes(vqtbl4q_u8(tables, places(codes, 16)));
  }

  static NIBBLE_INLINE Int negative_zero(int zero) { return vdupq_n_s32(-zero); }
  static NIBBLE_INLINE Int negative_zeros(const std::uint8_t* p) {
    std::uint32_t zeros = 0;
    __builtin_memcpy(&zeros, p, sizeof(zeros));
    const uint16x8_t wide = vmovl_u8(vcreate_u8(zeros));
    return vnegq_s32(vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide))));
  }
  /// -zero * a_sum.
  static NIBBLE_INLINE Int multiply_zero(Int zero, Int a_sum) { return vmulq_s32(zero, a_sum); }

  static NIBBLE_INLINE Float load_scales(const std::uint16_t* p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
  }
  static NIBBLE_INLINE Float load_multiples(const std::int8_t* p) {
    std::uint32_t multiples = 0;
    __builtin_memcpy(&multiples, p, sizeof(multiples));
    const int16x8_t wide = vmovl_s8(vcreate_s8(multiples));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
  }
  static NIBBLE_INLINE Float load_floats(const float* p) { return vld1q_f32(p); }
  static NIBBLE_INLINE void store(float* p, Float v) { vst1q_f32(p, v); }
  static NIBBLE_INLINE Float fma(Float a, Float b, Float c) { return vfmaq_f32(c, a, b); }

 private:
  static NIBBLE_INLINE uint8x16_t in_each_byte(int value) {
    return vdupq_n_u8(static_cast<std::uint8_t>(value));
  }
  /// Codes behind the entries of the rows before theirs.
  static NIBBLE_INLINE uint8x16_t places(Int codes, std::uint32_t entries) {
    const uint32x4_t row = {0x00000000, 0x01010101, 0x02020202, 0x03030303};
    return vorrq_u8(bytes(codes), vreinterpretq_u8_u32(row * entries));
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
