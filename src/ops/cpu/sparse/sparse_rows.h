#pragma once

#include <cstdint>
#include <span>

/// Products of block-sparse rows (formats/block_sparse.h), read as they are stored. This header is
/// also included by files that are compiled for one instruction set: it must not bring inline
/// functions with it, because the linker may keep the copy that needs that instruction set.
///
/// The weights that a row keeps stand one behind the other. They are cut into quads of 4, quads
/// into lines of 8:
///
///   kept groups   | g1            | g4            | g7            | ...      16 weights each
///   quads          0   1   2   3    4   5   6   7    0   1   2   3
///   lines          ------------- 0 -------------    ------- 1 ---
///
/// With a(k) the INT8 codes of the activations, every kernel computes
///
///   sum[line % 2][quad] = fma(float(sum over the quad of (code - zero) * a),
///                             scale * a_scale, sum[line % 2][quad])
///
/// for one quad after another, t[i] = sum[0][i] + sum[1][i], u[i] = t[i] + t[i + 4], and
/// y = (u[0] + u[2]) + (u[1] + u[3]). The bracket is an exact integer below 2^18. So results are
/// equal to the last bit on all instruction sets, batch sizes and thread counts.
namespace nibble::ops::cpu {

inline constexpr int kSparseQuad = 4;
inline constexpr int kSparseLanes = 8;  // quads of a line

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

/// INT8 activations, group after group: the codes, and behind them the scale four times. Behind the
/// last group of a token stands one of zeros.
struct SparseInput {
  std::int64_t m = 0;
  const std::uint8_t* blocks = nullptr;
  std::int64_t block_bytes = 0;  // group + 16
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
