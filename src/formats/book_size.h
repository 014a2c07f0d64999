#pragma once

#include <cstdint>

#include "formats/scheme.h"

namespace nibble::formats {

/// Whether the code book is learned: a part of the weight.
inline bool has_learned_book(const Scheme& scheme) {
  return scheme.book == Book::kPerRow || scheme.book == Book::kPerMatrix;
}

/// Values of a code book, 2^bits; not for kDense and kInt.
inline std::int64_t book_size(const Scheme& scheme) {
  return std::int64_t{1} << scheme.bits;
}

}  // namespace nibble::formats
