#pragma once

#include <cstdint>

namespace nibble::formats {

/// x <- x H of hadamard.h, or x H^T.
struct HadamardTurn {
  std::int64_t base = 1;
  std::int64_t width = 1;        // of S, a power of two
  const float* signs = nullptr;  // B [base, base]; null: base is 1
  bool transposed = false;
};

/// Turns `blocks` blocks of base * width values, which stand one after another; `scratch` has room
/// for one of them where there is a base. Additions are the same, in the same order, in every
/// instruction set: the best that this machine has is taken.
void turn_blocks(const HadamardTurn& turn, float* x, std::int64_t blocks, float* scratch);
void turn_blocks(const HadamardTurn& turn, double* x, std::int64_t blocks, double* scratch);

/// The same in vectors of what every processor of the family has.
void turn_blocks_plainly(const HadamardTurn& turn, float* x, std::int64_t blocks, float* scratch);

}  // namespace nibble::formats
