#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace nibble::ops {

/// A code book as kernels run it: value(code) = unit * entries[code]. Entries behind a shorter book
/// repeat its last one.
struct Int8Table {
  std::array<std::int8_t, 16> entries{};  // [-127, 127]
  float unit = 0.0f;
};

/// Exact when a power of two makes every value an integer of at most 127 (FP4: halves); otherwise
/// the largest magnitude becomes 127 and the others round to nearest, ties to even: an error of at
/// most 1/254 of the largest. 126 stands for 127 where both a 127 and a -127 are eight codes apart
/// from an entry of the other sign: a GPU has no table for such a book, nor for its negative
/// (ops/cuda/packed/book_table.h), and all devices compute with the same integers. `book`: 1 to 16
/// finite values.
Int8Table int8_table(std::span<const float> book);

}  // namespace nibble::ops
