#include <array>

#include "core/error.h"
#include "formats/format.h"
#include "formats/fp4/e2m1_numbers.h"
#include "formats/fp8/fp8_codes.h"
#include "formats/gguf_types.h"
#include "formats/runs.h"
#include "formats/trellis/trellis_code.h"

namespace nibble::formats {

// The one place where types of codes are registered: those of weights, and those of activations.
std::span<const CodeType* const> code_types() {
  static constexpr std::array kAll = {&kDenseCodes, &kIntegerCodes, &kBookCodes, &kFp8Codes,
                                      &kTrellisCodes};
  return kAll;
}

std::span<const CodeType* const> activation_types() {
  static constexpr std::array kAll = {&kIntegerCodes, &kFp8Codes, &kE2m1Numbers};
  return kAll;
}

const Runs* runs_of(const Scheme& scheme) {
  return has_trellis(scheme) ? &kTrellisRuns : nullptr;
}

std::unique_ptr<const Format> make_format(const Scheme& scheme, std::span<const float> book) {
  validate(scheme);
  core::require(book.empty() || has_learned_book(scheme), core::ErrorKind::kUsage,
                "{} takes no learned code book", scheme);
  core::require(has_codes(scheme), core::ErrorKind::kUsage,
                "{} stores values, not codes: it has no encoder", scheme);
  core::require(!has_supers(scheme) || block_type_of(scheme) != nullptr, core::ErrorKind::kUsage,
                "{} is read from files; nothing is rounded to it here", scheme);
  core::require(runs_of(scheme) == nullptr, core::ErrorKind::kUsage,
                "weights of {} are not rounded one by one: {} are chosen many together (recipes "
                "trellis4, trellis3, trellis2)",
                scheme, scheme.code.type->name);
  return scheme.code.type->make_format(scheme, book);
}

}  // namespace nibble::formats
