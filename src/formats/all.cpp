#include "core/error.h"
#include "formats/codebooks.h"
#include "formats/format.h"
#include "formats/fp8/fp8_format.h"
#include "formats/int/int_format.h"
#include "formats/lut4/lut4_format.h"
#include "formats/mx/mx_format.h"
#include "formats/nv/nv_format.h"

namespace nibble::formats {
namespace {

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

}  // namespace

// The one place where formats are registered.
std::unique_ptr<const Format> make_format(const Scheme& scheme, std::span<const float> book) {
  validate(scheme);
  core::require(book.empty() || has_learned_book(scheme), core::ErrorKind::kUsage,
                "{} takes no learned code book", scheme);
  switch (scheme.scale.type) {
    case ScaleType::kE8m0:
      return make_mx_format(scheme);
    case ScaleType::kE4m3:
      return make_nv_format(scheme, 1.0f);
    case ScaleType::kF16:
    case ScaleType::kUnits:
      if (has_float_codes(scheme)) {
        return make_fp8_format(scheme);
      }
      return is_integer(scheme) ? make_int_format(scheme)
                                : make_lut4_format(scheme, book_for(scheme, book));
    case ScaleType::kNone:
      break;
  }
  core::fail(core::ErrorKind::kUsage, "{} stores values, not codes: it has no encoder",
             to_string(scheme));
}

}  // namespace nibble::formats
