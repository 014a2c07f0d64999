#include <array>

#include "core/error.h"
#include "formats/code_type.h"
#include "formats/codebooks.h"
#include "formats/lut4/lut4_format.h"
#include "formats/mx/mx_format.h"
#include "formats/nv/nv_format.h"

namespace nibble::formats {
namespace {

constexpr std::array<CodeWord, 3> kWords = {{{"lut2", 2}, {"lut3", 3}, {"lut4", 4}}};
constexpr int kFixedBits = 4;
constexpr std::array<CodeVariant, 6> kVariants = {{{"nf4", Book::kNf4, Zero::kNone, kFixedBits},
                                                   {"fp4", Book::kE2m1, Zero::kNone, kFixedBits},
                                                   {"af4", Book::kAf4, Zero::kNone, kFixedBits},
                                                   {"iq4", Book::kIq4, Zero::kNone, kFixedBits},
                                                   {"row", Book::kPerRow},
                                                   {"matrix", Book::kPerMatrix}}};

std::span<const float> book_for(const Scheme& scheme, std::span<const float> learned) {
  if (!has_learned_book(scheme)) {
    return fixed_book(scheme.code.book, scheme.scale.group);
  }
  core::require(!learned.empty(), core::ErrorKind::kUsage,
                "{} has a learned code book: choose a recipe that learns one (any4), or a fixed "
                "book such as lut4-nf4-g64",
                scheme);
  return learned;
}

std::unique_ptr<const Format> make(const Scheme& scheme, std::span<const float> book) {
  switch (scheme.scale.type) {
    case ScaleType::kE8m0:
      return make_mx_format(scheme);
    case ScaleType::kE4m3:
      return make_nv_format(scheme, 1.0f);
    default:
      return make_lut4_format(scheme, book_for(scheme, book));
  }
}

void decode(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
            const BookValues& book, float* out) {
  std::array<float, 16> values{};
  for (std::size_t i = 0; i < book.size(); ++i) {
    values[i] = parameters.scale * book[i];
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    out[i] = values[codes[i]];
  }
}

}  // namespace

constinit const CodeType kBookCodes = {
    .name = "entries of a book",
    .example = "lut4-nf4-g64",
    .rule =
        "codes of books have a code book and no zero points; they have 4 bits, those of "
        "learned books (row, matrix) 2, 3 or 4",
    .words = kWords,
    .variants = kVariants,
    .activations = &kIntegerCodes,
    .make_format = make,
    .decode = decode};

}  // namespace nibble::formats
