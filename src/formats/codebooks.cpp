#include "formats/codebooks.h"

#include "core/error.h"
#include "formats/lut4/af4_books.h"
#include "gguf_blocks/iq4_book.h"

namespace nibble::formats {
namespace {

// The AF4 book whose group size is nearest in log2: g lies nearer to the upper of two sizes a < b
// when g * g > a * b. A whole row (0) counts as large.
std::span<const float> af4_book(std::int64_t group) {
  if (group == 0) {
    return kAf4.back();
  }
  if (group <= 45) {  // sqrt(32 * 64) = 45.3
    return kAf4[0];
  }
  if (group <= 90) {  // sqrt(64 * 128) = 90.5
    return kAf4[1];
  }
  if (group <= 181) {  // sqrt(128 * 256) = 181.02
    return kAf4[2];
  }
  return kAf4[3];
}

}  // namespace

std::span<const float> fixed_book(Book book, std::int64_t group) {
  switch (book) {
    case Book::kNf4:
      return kNf4;
    case Book::kE2m1:
      return kE2m1;
    case Book::kAf4:
      return af4_book(group);
    case Book::kIq4:
      return gguf_blocks::kIq4Book;
    case Book::kNone:
    case Book::kPerRow:
    case Book::kPerMatrix:
      break;
  }
  core::fail(core::ErrorKind::kUsage,
             "this code book is not fixed; it is learned from the weights");
}

}  // namespace nibble::formats
