#pragma once

#include <cstdint>
#include <span>

/// Products of block-sparse rows (formats/block_sparse.h), each a stream of bytes
/// (rows/row_streams.h), and of tiles of 16 rows that keep the same groups (tiles/tile_units.h):
/// what kernels get, and what they are. This header is also included by files that are compiled for
/// one instruction set: it must not bring inline functions with it, because the linker may keep the
/// copy that needs that instruction set.
namespace nibble::ops::cpu {

inline constexpr int kSparseQuad = 4;  // weights that lie side by side

/// One matrix as kernels see it.
struct SparseWeight {
  const std::uint8_t* bytes = nullptr;
  const std::int32_t* first = nullptr;    // [n / rows + 1], where each row begins, in kStreamBorder
                                          // bytes; or each tile, in units
  const std::uint16_t* groups = nullptr;  // of each unit of tiles, which group it is
  const float* row_units = nullptr;       // [n], of scales of tiles that are bytes
  std::int64_t k = 0;
  int rows = 1;            // of a stream: 1, or those of a tile
  int group = 0;           // inputs: 8, 16, 32 or 64
  int held_bits = 4;       // 4 or 8
  int scale_bytes = 2;     // 2, or of tiles 1
  bool has_books = false;  // codes of rows are entries of the table of their stream
};

/// Activations by windows (rows/row_streams.h). Each has lines of 16 words, one for each piece: a
/// line for each quad of a piece, one of scales (floats), and one of sums of codes. Behind the last
/// piece there are words of any value. Tokens stand in blocks of `tokens`, a power of 2, then in
/// one of half as many if there are so many left, and so on; a block of T from token t on begins at
/// word t * stride:
///
///   words [windows, T, lines, 16], on borders of 64 bytes
struct SparseWindows {
  const std::int32_t* words = nullptr;
  std::int64_t stride = 0;  // words of a token
  int tokens = 1;
};

/// INT8 activations.
struct SparseInput {
  std::int64_t m = 0;
  const std::int8_t* codes = nullptr;  // [m, k], rows code_stride bytes apart
  const float* scales = nullptr;       // [m, k / group], rows scale_stride floats apart
  const std::int32_t* sums = nullptr;  // of the codes of each group, as scales
  std::int64_t code_stride = 0;
  std::int64_t scale_stride = 0;
  SparseWindows windows;  // the same once more, for kernels that read them
};

struct SparseLanes;  // rows/token_lanes.h

/// An instruction set's kernel.
struct SparseKernel {
  const char* name = nullptr;  // that of the variant (packed/variants.h) with these instructions
  const char* needs = nullptr;
  bool (*runs_here)() = nullptr;
  /// Rows, or tiles, [begin, end) of all tokens; y points at column 0 of the matrix.
  void (*run)(const SparseWeight&, const SparseInput&, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) = nullptr;
  int windows = 0;  // of rows: the most tokens of a block of SparseInput::windows; 0: it reads none
  /// The same of rows of nibbles and blocks of up to kSparseLanes tokens, a lane for each; null:
  /// there is none.
  void (*run_lanes)(const SparseWeight&, std::span<const SparseLanes>, std::int64_t begin,
                    std::int64_t end, float* y, std::int64_t ldy) = nullptr;
};

SparseKernel scalar_sparse_kernel();  // the reference

// x86-64
SparseKernel avx2_sparse_kernel();
SparseKernel avx512vnni_sparse_kernel();

/// All of this build, the slowest first.
std::span<const SparseKernel> sparse_kernels();

}  // namespace nibble::ops::cpu
