#pragma once

#include <cstddef>
#include <cstdint>

/// How compressed weights lie in the memory of a GPU.
///
/// W[n][k] is cut into units of 64 rows (a row group: four tiles of 16) and 128 inputs, both
/// padded. Units of a row group follow one another along k. A unit is
///
///   codes    four tiles, in the order in which the lanes of a warp hold the left operand of
///            mma.m16n8k32 and wgmma.m64nNk32
///   scales   16 bits each, [tile][group][16]
///   zeros    U8 [tile][group][16], integers with zeros only
///   shifts   F16 [tile][group][16], integers with shifts only
///
/// A unit holds one group of inputs, four (of 32; groups of 64 stand there twice) or eight (of 16).
/// Lane l = 4 g
/// + t of a warp owns rows g and g + 8 of each tile; the 16 rows of scales and zeros (or shifts)
/// stand in the order 0, 8, 1, 9, ... Inputs of a lane, e = 0..1, h = 0..3, i = 0..3: k = 32 h + 8
/// t + 4 e + i.
///
///   4 bits: per tile 64 words. Word w = 2 h + e of lane l is at (w / 4) * 512 + l * 16 + (w % 4) *
///   4. Integers: i stands in nibble 4 (i % 2) + 2 (i / 2), that of row g + 8 one higher and with
///   its highest bit turned over: code - 8, signed. Books: low half row g, high half row g + 8, i
///   in nibble 0, 2, 1, 3.
///
///   3 and 2 bits: per tile 64 bits of each lane, and 16 more where there are three bits
///   ("planes"). Word h of lane l is at l * 16 + h * 4: nibbles as of 4 bits, the code's lower two
///   bits from bit 2 e of the nibble on; integers as they are. The third bit of a code is in word h
///   / 2 at 512 + l * 8 + h / 2 * 4, bit third_bit() of the nibble.
///
///   8 bits: per tile 128 words. Word r = 2 e + (row >= 8) of lane l is at h * 512 + l * 16 + r *
///   4; i stands in byte 0, 2, 1, 3; signed: code - 128. kBytes as they are.
namespace nibble::ops::cuda {

inline constexpr std::int64_t kUnitRows = 64;
inline constexpr std::int64_t kUnitInputs = 128;
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTiles = kUnitRows / kTileRows;

/// What codes mean.
enum class CodeKind {
  kInt4,            // q - 8
  kInt4WithZeros,   // q - zero
  kInt8,            // q - 128
  kInt8WithZeros,   // (q - 128) - (zero - 128)
  kBook,            // entry q of a row's table (book_table.h)
  kBytes,           // 8 bits as they are: their kernel knows what they mean
  kInt3,            // q - 4
  kInt3WithZeros,   // q - zero
  kInt2,            // q - 2
  kInt2WithZeros,   // q - zero
  kBook3,           // entry q of the first 8 of a row's table
  kBook2,           // of the first 4
  kInt4WithShifts,  // q - 8, and the shift is added to its product with the scale
  kInt8WithShifts,  // q - 128, likewise
};

/// What a group has beside its scale.
enum class GroupOffset {
  kNone,
  kZero,   // an integer that is subtracted from codes
  kShift,  // a float16 that is added to their products with the scale
};

constexpr bool has_byte_codes(CodeKind kind) {
  return kind == CodeKind::kInt8 || kind == CodeKind::kInt8WithZeros ||
         kind == CodeKind::kInt8WithShifts || kind == CodeKind::kBytes;
}
constexpr bool is_book(CodeKind kind) {
  return kind == CodeKind::kBook || kind == CodeKind::kBook3 || kind == CodeKind::kBook2;
}
constexpr GroupOffset offset_of(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt4WithZeros:
    case CodeKind::kInt8WithZeros:
    case CodeKind::kInt3WithZeros:
    case CodeKind::kInt2WithZeros:
      return GroupOffset::kZero;
    case CodeKind::kInt4WithShifts:
    case CodeKind::kInt8WithShifts:
      return GroupOffset::kShift;
    default:
      return GroupOffset::kNone;
  }
}
constexpr bool has_zero_points(CodeKind kind) {
  return offset_of(kind) == GroupOffset::kZero;
}
constexpr bool has_shifts(CodeKind kind) {
  return offset_of(kind) == GroupOffset::kShift;
}
/// Bytes of one.
constexpr std::int64_t offset_bytes(GroupOffset offset) {
  return offset == GroupOffset::kShift ? 2 : offset == GroupOffset::kZero ? 1 : 0;
}

/// Bits that a code takes: 8, 4, 3 or 2.
constexpr int bits_of(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt8:
    case CodeKind::kInt8WithZeros:
    case CodeKind::kInt8WithShifts:
    case CodeKind::kBytes:
      return 8;
    case CodeKind::kInt3:
    case CodeKind::kInt3WithZeros:
    case CodeKind::kBook3:
      return 3;
    case CodeKind::kInt2:
    case CodeKind::kInt2WithZeros:
    case CodeKind::kBook2:
      return 2;
    default:
      return 4;
  }
}

/// Whether codes lie in planes of two bits and of one.
constexpr bool has_planes(CodeKind kind) {
  return bits_of(kind) < 4;
}

/// kBf16 for powers of two beyond the range of float16 (MX).
enum class ScaleKind { kF16, kBf16 };

struct UnitFormat {
  CodeKind codes = CodeKind::kInt4;
  ScaleKind scales = ScaleKind::kF16;
  std::int64_t groups = 1;  // in a unit: 1, 4 or 8

  constexpr bool has_zeros() const { return has_zero_points(codes); }
  constexpr bool has_shifts() const { return cuda::has_shifts(codes); }
  constexpr std::int64_t bits() const { return bits_of(codes); }
  // Of a tile:
  constexpr std::int64_t code_bytes() const { return kTileRows * kUnitInputs * bits() / 8; }
  // Where zeros, or shifts, begin.
  constexpr std::int64_t zero_offset() const { return code_bytes() + kTileRows * groups * 2; }
  constexpr std::int64_t tile_bytes() const {
    return zero_offset() + kTileRows * groups * offset_bytes(offset_of(codes));
  }
  // Of a unit:
  constexpr std::int64_t bytes() const { return kTiles * tile_bytes(); }
  friend bool operator==(const UnitFormat&, const UnitFormat&) = default;
};

/// Where a code lies among the codes of its tile, or a part of it: from bit `shift` of word `word`
/// of the 16 bytes number `vector`.
struct CodePlace {
  unsigned vector;
  unsigned word;
  unsigned shift;
};

/// Which of the eight nibbles of a word is of input i = k % 4, in the lower or the upper eight
/// rows.
constexpr unsigned nibble_of(CodeKind kind, unsigned i, unsigned upper) {
  const unsigned swapped = i % 2 * 2 + i / 2;  // 0, 2, 1, 3
  return is_book(kind) ? 4 * upper + swapped : 2 * swapped + upper;
}

/// The bit of a nibble in which the third bits of e and h % 2 stand: kernels want it in the third
/// place, and shifts to the left are cheap.
constexpr unsigned third_bit(unsigned h, unsigned e) {
  const unsigned number = h % 2 * 2 + e;
  return number == 3 ? 3 : 2 - number;
}

/// Of row 0 to 15 of a tile and input k = 0 to 127 of a unit; in planes, of the lower two bits.
constexpr CodePlace code_place(CodeKind kind, unsigned row, unsigned k) {
  const unsigned h = k / 32;
  const unsigned lane = row % 8 * 4 + k % 32 / 8;
  const unsigned e = k % 8 / 4;
  const unsigned i = k % 4;
  const unsigned upper = row / 8;
  if (has_byte_codes(kind)) {
    const unsigned swapped = i % 2 * 2 + i / 2;
    return {h * 32 + lane, 2 * e + upper, 8 * swapped};
  }
  const unsigned nibble = nibble_of(kind, i, upper);
  if (has_planes(kind)) {
    return {lane, h, 4 * nibble + 2 * e};
  }
  return {h / 2 * 32 + lane, h % 2 * 2 + e, 4 * nibble};
}

/// Of the third bit, behind the plane of two bits.
constexpr CodePlace third_bit_place(CodeKind kind, unsigned row, unsigned k) {
  constexpr unsigned kTwoBitVectors = 32;
  const unsigned h = k / 32;
  const unsigned lane = row % 8 * 4 + k % 32 / 8;
  const unsigned nibble = nibble_of(kind, k % 4, row / 8);
  return {kTwoBitVectors + lane / 2, lane % 2 * 2 + h / 2, 4 * nibble + third_bit(h, k % 8 / 4)};
}

/// What stands there for a code of this row, and for what stands there the code.
constexpr std::uint8_t turned_code(CodeKind kind, unsigned row, std::uint8_t code) {
  if (kind == CodeKind::kBytes || has_planes(kind)) {
    return code;
  }
  const unsigned highest = has_byte_codes(kind) ? 0x80 : kind == CodeKind::kBook || row < 8 ? 0 : 8;
  return static_cast<std::uint8_t>(code ^ highest);
}

/// The place of a tile's row among the 16 scales, or zeros, of a group.
constexpr std::int64_t scale_place(unsigned row) {
  return std::int64_t{2} * (row % 8) + row / 8;
}

/// Size of a matrix in units.
struct UnitGrid {
  std::int64_t row_groups = 0;
  std::int64_t blocks = 0;  // units of a row group
  constexpr std::int64_t count() const { return row_groups * blocks; }
};
constexpr UnitGrid unit_grid(std::int64_t n, std::int64_t k) {
  return {(n + kUnitRows - 1) / kUnitRows, (k + kUnitInputs - 1) / kUnitInputs};
}

/// Packed weights on the device.
struct UnitsView {
  UnitFormat format;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const std::byte* units = nullptr;
  const std::int8_t* tables = nullptr;  // [row_groups * 64][16] (book_table.h), books only
  const float* factors = nullptr;       // [row_groups * 64], null: all 1
};

}  // namespace nibble::ops::cuda
