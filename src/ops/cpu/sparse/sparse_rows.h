#pragma once

#include <cstdint>
#include <span>

/// Products of block-sparse rows (formats/block_sparse.h), read as they are stored. This header is
/// also included by files that are compiled for one instruction set: it must not bring inline
/// functions with it, because the linker may keep the copy that needs that instruction set.
///
/// The weights that a row keeps stand one behind the other. They are cut into quads of 4, and quads
/// into pieces of 4:
///
///   kept groups   | g1            | g4            | g7            | ...      16 weights each
///   quads          0   1   2   3    4   5   6   7    8   9  10  11
///   pieces         ----- 0 ------   ----- 1 ------   ----- 2 ------
///
/// With a(k) the INT8 codes of the activations, every kernel computes for one quad q after another,
/// of piece p = q / 4,
///
///   float& s = sum[p % 2][p / 2 % 4 * 4 + q % 4]
///   s = fma(float(sum over the quad of (code - zero) * a), scale * a_scale, s)
///
/// and then t[i] = sum[0][i] + sum[1][i], u[i] = t[i] + t[i + 8], v[i] = u[i] + u[i + 4],
/// y = (v[0] + v[2]) + (v[1] + v[3]).
/// What is in the brackets is an exact integer below 2^18. So results are equal to the last bit on
/// all instruction sets, batch sizes and thread counts.
namespace nibble::ops::cpu {

inline constexpr int kSparseQuad = 4;
inline constexpr int kSparsePiece = 16;

/// Bytes of a block of activations: of 16 inputs, or of a group of 8.
inline constexpr int kSparseBlock = 64;

/// One matrix as kernels see it.
struct SparseWeight {
  const std::int32_t* row_index = nullptr;  // [n + 1]
  const std::uint8_t* groups = nullptr;     // [kept, index_bytes], little-endian
  const std::uint8_t* codes = nullptr;      // [kept, group * bits / 8], LSB first
  const std::uint16_t* scales = nullptr;    // [kept], float16
  const std::uint8_t* zeros = nullptr;      // [kept], `bits` each, LSB first; null: symmetric
  std::int64_t group = 0;                   // inputs: 8, 16, 32 or 64
  int index_bytes = 1;
  int bits = 4;
};

/// INT8 activations in blocks, so that a load at the block or 16 bytes behind it gives codes and
/// scale in either order:
///
///   bytes    0 .. 15   16 .. 31             32 .. 47   48 .. 63
///            codes     the scale, 4 times   codes      not used
///
/// Behind the last block of a token stand those of one group of zeros.
struct SparseInput {
  std::int64_t m = 0;
  const std::uint8_t* blocks = nullptr;
  std::int64_t group_bytes = 0;  // the blocks of a group
  std::int64_t token_bytes = 0;
  std::int64_t groups = 0;  // of a token: the index of the zeros
};

/// An instruction set's kernel.
struct SparseKernel {
  const char* name = nullptr;  // that of the variant (packed/variants.h) with these instructions
  const char* needs = nullptr;
  bool (*runs_here)() = nullptr;
  bool (*takes)(int bits, std::int64_t group) = nullptr;
  /// Rows [begin, end) of all tokens; y points at column 0 of the matrix.
  void (*run)(const SparseWeight&, const SparseInput&, std::int64_t begin, std::int64_t end,
              float* y, std::int64_t ldy) = nullptr;
};

SparseKernel scalar_sparse_kernel();  // the reference: any bits, any group

// x86-64
SparseKernel avx2_sparse_kernel();
SparseKernel avx512vnni_sparse_kernel();

/// All of this build, the slowest first.
std::span<const SparseKernel> sparse_kernels();

}  // namespace nibble::ops::cpu
