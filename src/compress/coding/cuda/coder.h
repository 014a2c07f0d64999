#pragma once

#include <cstdint>

namespace nibble::compress::cuda {

inline constexpr int kBookSize = 16;

/// A code book in ascending order; a shorter one is filled up with its last value. Equal values
/// have the code of the first of them.
struct BookTable {
  float values[kBookSize];
  std::uint8_t codes[kBookSize];
};

/// How one weight becomes a code and back, bit for bit as formats::Format does it, for integers and
/// books with fp16 scales.
struct CoderView {
  const BookTable* books = nullptr;  // null: integers
  bool book_of_row = false;          // row i has books[i]; else all rows have books[0]
  bool learned = false;              // books are; scales of groups are positive then
  int bits = 4;
  bool symmetric = true;
};

/// Of one group.
struct GroupValues {
  float scale = 1.0f;
  std::int32_t zero = 0;
};

}  // namespace nibble::compress::cuda
