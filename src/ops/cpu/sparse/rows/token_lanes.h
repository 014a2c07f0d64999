#pragma once

#include <cstdint>
#include <span>

#include "ops/cpu/sparse/rows/row_streams.h"

/// Block-sparse rows times many tokens, a lane of a vector for each token: no activation has to be
/// brought to its group, and results have the bits of row_streams.h. Also included by files that
/// are compiled for one instruction set.
namespace nibble::ops::cpu {

inline constexpr int kSparseLanes = 16;

/// Tokens side by side. Codes stand as bytes a + 128, so that they meet weights with a sign:
///
///   sum of w * a  =  sum of w * (a + 128)  -  128 * sum of w      w = code - zero, or entry(code)
struct SparseLanes {
  const std::uint8_t* codes = nullptr;  // [k / 4, kSparseLanes, 4], on borders of 64 bytes
  const float* scales = nullptr;        // [k / group, kSparseLanes], likewise
  std::int64_t tokens = 0;              // that there are, at most kSparseLanes
};

/// Rows [begin, end) of blocks of tokens, one behind the other, all but the last of which are full;
/// y points at column 0 of the first token. Needs AVX512-VNNI.
void run_token_lanes_avx512vnni(const SparseWeight& w, std::span<const SparseLanes> x,
                                std::int64_t begin, std::int64_t end, float* y, std::int64_t ldy);

}  // namespace nibble::ops::cpu
