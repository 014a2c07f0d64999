#pragma once

#include <cstdint>

/// The one layout of packed weights that every instruction set and every batch size reads.
///
/// A tile is 16 output rows over all inputs. The inputs of a group are padded to a multiple of 32
/// (a unit) and cut into quads of 4. A line is 64 bytes: 16 rows x 4 inputs.
///
///   byte of a line      0  1  2  3 |  4  5  6  7 | ... | 60 61 62 63
///   row                     0      |      1      |     |     15
///   input in the quad   0  1  2  3 |  0  1  2  3 |     |  0  1  2  3
///
///   4-bit codes   line j holds quads 2j and 2j+1:   [ quad 2j+1 : quad 2j ]   high : low nibble
///   8-bit codes   line q holds quad q
///
///   tile   | units f32[16] | tables u8[16][16] | scales f16[groups][16] | zeros u8[groups][16] |
///   lines |
///                            per-row books only                            asymmetric only
///
/// All codes are unsigned. With a(k) the INT8 codes of the activations, for row r and token t:
///
///   y(t, r) = unit(r) * sum over groups g of  scale(r, g) * a_scale(t, g) *
///                       ( sum over k in g of u(r, k) * a(t, k)  -  zero(r, g) * sum over k in g of
///                       a(t, k) )
///
/// where u is the code itself, or table[code] for 16-entry books. The bracket is an exact integer
/// below 2^24, so only the sum over groups rounds; every kernel computes it as
///   total = fma(float(bracket), scale * a_scale, total)   for g = 0, 1, 2, ...   and y = total *
///   unit,
/// which makes results equal to the last bit on all instruction sets, batch sizes and thread
/// counts.
///
/// Rows beyond n have unit 0 and scale 0; padded inputs meet activation codes that are 0.
namespace nibble::ops::cpu {

/// Counts the changes of this layout, and of how tiles are made from a weight: files that hold
/// tiles name the version they were made by.
inline constexpr std::uint32_t kTileLayoutVersion = 1;

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kQuad = 4;
inline constexpr std::int64_t kLineBytes = kTileRows * kQuad;
inline constexpr std::int64_t kUnit = 32;       // inputs that kernels take as one step
inline constexpr std::int64_t kMaxGroup = 256;  // keeps |sum of activation codes| below 2^15
inline constexpr int kSmallWeight = 32;  // 4 quads x 2 products x 32 * 127 still fit in 16 bits

/// How a line becomes unsigned bytes.
enum class CodeKind {
  kNibble,       // the code itself, 0..15
  kSharedTable,  // one table for the matrix
  kRowTables,    // one table for each row
  kByte,         // 8-bit codes
};

/// One packed matrix as kernels see it.
struct TiledWeight {
  const std::uint8_t* tiles = nullptr;  // 64-byte aligned
  std::int64_t tile_bytes = 0;          // multiple of 64
  std::int64_t n = 0;
  std::int64_t tile_count = 0;
  std::int64_t groups = 0;
  std::int64_t units_per_group = 0;  // padded inputs of a group / kUnit
  std::int64_t tables_offset = 0;    // bytes from the start of a tile
  std::int64_t scales_offset = 0;
  std::int64_t zeros_offset = 0;  // 0: every zero is `zero`
  std::int64_t codes_offset = 0;
  CodeKind kind = CodeKind::kNibble;
  int zero = 0;
  int largest = 15;  // no u(r, k) is above this
  alignas(64) std::uint8_t table[16] = {};

  std::int64_t unit_bytes() const {
    return kUnit / kQuad * kLineBytes / (kind == CodeKind::kByte ? 1 : 2);
  }
};

/// Quantized activations as kernels see them.
struct TiledInput {
  std::int64_t m = 0;
  const std::int8_t* codes =
      nullptr;                    // [m] rows, row_stride bytes apart, groups padded like weights
  const float* scales = nullptr;  // [m, groups]
  const std::int32_t* sums = nullptr;  // [m, groups], sum of the group's codes
  std::int64_t row_stride = 0;
  std::int64_t groups = 0;
};

}  // namespace nibble::ops::cpu
