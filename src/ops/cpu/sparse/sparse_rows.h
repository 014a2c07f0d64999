#pragma once

#include <cstdint>
#include <span>

/// Products of block-sparse rows (formats/block_sparse.h) in units, one stream for each row or for
/// each tile of 16 rows that keep the same groups. This header is also included by files that are
/// compiled for one instruction set: it must not bring inline functions with it, because the linker
/// may keep the copy that needs that instruction set.
///
/// Units of a tile: tile_units.h. A unit of a row holds kSparseUnit weights, E = kSparseUnit /
/// group groups that the row keeps. They are cut into pieces of 16 weights (of 8 where groups have
/// 8); each piece has a lane of 16, those of groups of 8 share one in twos:
///
///   places [E]    which group, counted from `base`, in a byte each
///   scales [E]    float16; or bytes that hold 7 bits (formats/row_unit.h), in units of the row
///   zeros         a nibble each, entry i in the low half of byte i, entry E / 2 + i in the high
///                 half; or a byte each [E]
///   base          the first group that a place may mean, 2 bytes, little-endian; then room up to
///                 16 bytes
///   codes         four vectors of 64: 4 weights of each of 16 pieces, byte 4 l + i of the piece of
///                 lane l. Vector q has the quads q of all pieces; of pieces of 8, vectors 0 and 1
///                 have those of the first 16 pieces, 2 and 3 of the others. As nibbles two vectors
///                 share a line of 64 bytes, the first in the low halves; else each has a line
///
/// Codes of up to 4 bits are nibbles, others bytes. A row's last unit is filled up with its last
/// group again, of scale 0 and codes equal to the zero; and so is a unit whose next group lies more
/// than 255 groups behind the base.
///
/// With a(k) the INT8 codes of the activations, every kernel computes for each piece of a unit, one
/// after another of its lane l,
///
///   s[l] = fma(float(sum over the piece of (code - zero) * a), scale * a_scale, s[l])
///
/// and then u[i] = s[i] + s[i + 8], v[i] = u[i] + u[i + 4], y = (v[0] + v[2]) + (v[1] + v[3]).
/// What is in the brackets is an exact integer below 2^20. So results are equal to the last bit on
/// all instruction sets, batch sizes and thread counts.
namespace nibble::ops::cpu {

inline constexpr int kSparseUnit = 256;   // weights
inline constexpr int kSparseVector = 64;  // weights
inline constexpr int kSparseQuad = 4;     // weights
inline constexpr int kSparseRowLanes = 16;

/// Weights of a piece.
static constexpr int sparse_piece_of(int group) {
  return group < 16 ? group : 16;
}

/// Where the parts of a unit stand, in bytes.
struct SparseUnitLayout {
  int entries;
  int scales;
  int zeros;
  int base;
  int codes;
  int bytes;
};
static constexpr SparseUnitLayout sparse_unit_layout_of(int group, int held_bits, int scale_bytes) {
  const int entries = kSparseUnit / group;
  const int zeros = (1 + scale_bytes) * entries;
  const int base = zeros + entries * held_bits / 8;
  const int codes = (base + 2 + 15) / 16 * 16;
  return {entries, entries, zeros, base, codes, codes + kSparseUnit * held_bits / 8};
}

/// One matrix as kernels see it.
struct SparseWeight {
  const std::uint8_t* units = nullptr;
  const std::int32_t* first_unit = nullptr;  // [n / rows + 1], of each row, or tile
  const std::uint16_t* groups = nullptr;     // of each unit of tiles, which group it is
  const float* row_units = nullptr;          // [n], of scales that are bytes
  int rows = 1;                              // of a unit: 1, or those of a tile
  int group = 0;                             // inputs: 8, 16, 32 or 64
  int held_bits = 4;                         // 4 or 8
  int scale_bytes = 2;                       // 1 or 2
};

/// Activations in parts that have a word for each piece of inputs: a part for each quad of a piece,
/// one of scales (floats), one of sums of codes. Each begins on a border of 64 bytes, and 64 words
/// of any value can be read behind it.
struct SparsePieces {
  const std::int32_t* words = nullptr;  // [m, parts, words of a part]
  std::int64_t part = 0;                // words from part to part
  std::int64_t stride = 0;              // words from token to token
};

/// INT8 activations.
struct SparseInput {
  std::int64_t m = 0;
  const std::int8_t* codes = nullptr;  // [m, k], rows code_stride bytes apart
  const float* scales = nullptr;       // [m, k / group], rows scale_stride floats apart
  const std::int32_t* sums = nullptr;  // of the codes of each group, as scales
  std::int64_t code_stride = 0;
  std::int64_t scale_stride = 0;
  SparsePieces pieces;  // the same once more, for kernels that read them
};

struct SparseLanes;  // token_lanes.h

/// An instruction set's kernel.
struct SparseKernel {
  const char* name = nullptr;  // that of the variant (packed/variants.h) with these instructions
  const char* needs = nullptr;
  bool (*runs_here)() = nullptr;
  /// Units of so many bits for a code, of a row or of a tile.
  bool (*takes)(int held_bits, int rows) = nullptr;
  /// Rows, or tiles, [begin, end) of all tokens; y points at column 0 of the matrix.
  void (*run)(const SparseWeight&, const SparseInput&, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) = nullptr;
  bool reads_pieces = false;  // of rows: SparseInput::pieces
  /// The same of rows of nibbles and up to kSparseLanes tokens, a lane for each; null: there is
  /// none.
  void (*run_lanes)(const SparseWeight&, const SparseLanes&, std::int64_t begin, std::int64_t end,
                    float* y, std::int64_t ldy) = nullptr;
};

SparseKernel scalar_sparse_kernel();  // the reference

// x86-64
SparseKernel avx2_sparse_kernel();
SparseKernel avx512vnni_sparse_kernel();

/// All of this build, the slowest first.
std::span<const SparseKernel> sparse_kernels();

}  // namespace nibble::ops::cpu
