#pragma once

#include <cstdint>

/// The one layout of packed weights that every instruction set and every batch size reads.
///
/// A tile is 16 output rows over all inputs. The inputs of a group are padded to a multiple of 32
/// (a unit) and cut into quads of 4. Where groups of 16 fill whole units, two of them share one. A
/// line is 64 bytes: 16 rows x 4 inputs.
///
///   byte of a line      0  1  2  3 |  4  5  6  7 | ... | 60 61 62 63
///   row                     0      |      1      |     |     15
///   input in the quad   0  1  2  3 |  0  1  2  3 |     |  0  1  2  3
///
///   8-bit codes   line q holds quad q
///   4-bit codes   line j holds quads 2j and 2j+1:      [ 2j+1 : 2j ]    high : low bits of a byte
///   2-bit codes   line j holds quads 4j to 4j+3:       [ 4j+3 : 4j+2 : 4j+1 : 4j ]
///   3-bit codes   three lines hold the quads 0 to 7 of a unit: the first six whole, of the others
///                 their lowest two bits (6l, 7l) and their highest one (6h, 7h):
///                     [ 6l : 1 : 0 ]      [ 7l : 3 : 2 ]      [ 7h : 6h : 5 : 4 ]
///
/// Where two of each four inputs are stored (formats/two_of_four.h), a unit is a line of indices
/// and lines of codes. Of each quad these hold the two that are kept, less their zero: code ^ zero,
/// so that what is not kept is 0 there.
///
///   byte of a line        0    1    2    3  | ... row 1 ...
///   indices, row 0      1 : 0  3 : 2  5 : 4  7 : 6        4 bits of a quad, as they are stored
///   codes c, row 0       two of quad 2c, two of 2c + 1    8 bits: line c; 4 bits: as quad c above
///
///   tile   | units f32[16] | tables u8[16][2^bits] | scales f16[groups][16] |
///                            per-row books only
///          | zeros u8[groups][16] | minima f16[groups][16] | lines |
///            asymmetric only        with minima only
///
/// Where scales (and minima) are multiples of a float16 that 256 inputs share, they are i8, and
/// behind each of them stand those numbers, f16[groups >> super_shift][16].
///
/// All codes are unsigned. With a(k) the INT8 codes of the activations, for row r and token t:
///
///   y(t, r) = unit(r) * sum over groups g of  scale(r, g) * a_scale(t, g) *
///                       ( sum over k in g of u(r, k) * a(t, k)  -  zero(r, g) * sum over k in g of
///                       a(t, k) )
///
/// where u is the code itself, or table[code] for books. With minima the bracket's second
/// term is + minimum(r, g) / scale(r, g) times that sum. The bracket is an exact integer,
/// below 2^24 but where a row is one group (at most kMaxRow inputs: below 2^31); every kernel
/// computes
///   total = fma(float(bracket), scale * a_scale, total)   for g = 0, 1, 2, ...   and y = total *
///   unit, or total * unit + bias,
/// and with minima (and zero 0)
///   total = fma(fma(float(sum of u a), scale, minimum * float(sum of a)), a_scale, total),
/// which makes results equal to the last bit on all instruction sets, batch sizes and thread
/// counts.
///
/// Rows beyond n have unit 0 and scale 0; padded inputs meet activation codes that are 0.
namespace nibble::ops::cpu {

/// Counts the changes of this layout, and of how tiles are made from a weight: files that hold
/// tiles name the version they were made by.
inline constexpr std::uint32_t kTileLayoutVersion = 5;

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kQuad = 4;
inline constexpr std::int64_t kTokenRows = 16;  // rows of activation codes come in as many
inline constexpr std::int64_t kLineBytes = kTileRows * kQuad;
inline constexpr std::int64_t kUnit = 32;  // inputs that kernels take as one step
inline constexpr std::int64_t kUnitQuads = kUnit / kQuad;
inline constexpr std::int64_t kHalfUnit = 16;     // the smallest group that is not padded
inline constexpr std::int64_t kMaxGroup = 256;    // keeps |sum of activation codes| below 2^15
inline constexpr std::int64_t kMaxRow = 1 << 16;  // keeps 255 * 127 * inputs below 2^31
inline constexpr int kSmallWeight = 32;  // 4 quads x 2 products x 32 * 127 still fit in 16 bits

/// How codes become unsigned weights.
enum class CodeKind {
  kInteger,      // the code itself
  kSharedTable,  // one table for the matrix
  kRowTables,    // one table for each row
};

/// Inputs of a group in rows of k inputs with their padding.
constexpr std::int64_t padded_group(std::int64_t group, std::int64_t k) {
  return group == kHalfUnit && k % kUnit == 0 ? kHalfUnit : (group + kUnit - 1) / kUnit * kUnit;
}

/// Bytes of a unit of which two of four codes are stored.
constexpr std::int64_t kept_unit_bytes(int bits) {
  return kLineBytes + kUnit / 2 * kTileRows * bits / 8;
}

/// One packed matrix as kernels see it.
struct TiledWeight {
  const std::uint8_t* tiles = nullptr;  // 64-byte aligned
  std::int64_t tile_bytes = 0;          // multiple of 64
  std::int64_t n = 0;
  std::int64_t tile_count = 0;
  std::int64_t groups = 0;
  std::int64_t group_inputs = 0;   // padded_group(): kHalfUnit, or a multiple of kUnit
  std::int64_t tables_offset = 0;  // bytes from the start of a tile
  std::int64_t scales_offset = 0;
  std::int64_t zeros_offset = 0;       // 0: every zero is `zero`
  std::int64_t minima_offset = 0;      // 0: there are none
  std::int64_t supers_offset = 0;      // 0: scales and minima are f16, else i8 times a super
  std::int64_t min_supers_offset = 0;  // with minima and supers
  int super_shift = 0;                 // log2 of the groups that share a super
  std::int64_t codes_offset = 0;
  CodeKind kind = CodeKind::kInteger;
  int bits = 4;              // of a code: 2, 3, 4, or of integers also 8
  bool two_of_four = false;  // of each quad two codes are stored: integers of 4 or 8 bits
  int zero = 0;
  int largest = 15;  // no u(r, k) is above this
  alignas(64) std::uint8_t table[16] = {};
  const float* bias = nullptr;  // [n], added to the products; null: nothing is

  /// Bytes of the lines of a group.
  std::int64_t group_bytes() const {
    return two_of_four ? units_per_group() * kept_unit_bytes(bits)
                       : group_inputs * kTileRows * bits / 8;
  }
  /// Entries of a row's table.
  std::int64_t table_size() const { return std::int64_t{1} << bits; }
  std::int64_t units_per_group() const { return group_inputs / kUnit; }
  /// Whether a row is one group, longer than kMaxGroup.
  bool sums_whole_rows() const { return group_inputs > kMaxGroup; }
  /// Whether groups are halves of units, or have minima or supers, as those of GGUF's blocks.
  bool in_blocks() const {
    return group_inputs == kHalfUnit || minima_offset != 0 || supers_offset != 0;
  }
};

/// Quantized activations as kernels see them.
struct TiledInput {
  std::int64_t m = 0;
  /// [m] rows, row_stride bytes apart, groups padded like weights. Kernels may read rows of any
  /// values behind them, up to a multiple of kTokenRows.
  const std::int8_t* codes = nullptr;
  const float* scales = nullptr;       // [m, groups]
  const std::int32_t* sums = nullptr;  // [m, groups], sum of the group's codes
  std::int64_t row_stride = 0;
  std::int64_t groups = 0;
};

}  // namespace nibble::ops::cpu
