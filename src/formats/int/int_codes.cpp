#include <array>

#include "formats/code_type.h"
#include "formats/int/int_format.h"
#include "formats/int/minima_format.h"

namespace nibble::formats {
namespace {

constexpr core::DType kNoFloats = core::DType::kF32;
constexpr std::array<CodeWord, 6> kWords = {{{"int2", 2},
                                             {"int3", 3},
                                             {"int4", 4},
                                             {"int5", 8, kNoFloats, 5},
                                             {"int6", 8, kNoFloats, 6},
                                             {"int8", 8}}};
constexpr std::array<CodeVariant, 3> kVariants = {{{"sym", Book::kNone, Zero::kNone},
                                                   {"asym", Book::kNone, Zero::kInteger},
                                                   {"min", Book::kNone, Zero::kReal}}};
constexpr std::array<int, 3> kActivationBits = {3, 4, 8};

std::unique_ptr<const Format> make(const Scheme& scheme, std::span<const float> /*book*/) {
  return has_minima(scheme) ? make_minima_format(scheme) : make_int_format(scheme);
}

void decode(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
            const BookValues& /*book*/, float* out) {
  for (std::size_t i = 0; i < codes.size(); ++i) {
    out[i] = parameters.scale * static_cast<float>(static_cast<int>(codes[i]) - parameters.zero);
  }
}

}  // namespace

constinit const CodeType kIntegerCodes = {
    .name = "integers",
    .example = "int4-asym-g128, int8-sym-row-a8",
    .rule = "integers have 2, 3, 4 or 8 bits (5 and 6 in GGUF's blocks) and no code book",
    .words = kWords,
    .variants = kVariants,
    .as_activations = {.bits = kActivationBits,
                       .rule = "activations have 3, 4 or 8 bits, or stay in float"},
    .activations = &kIntegerCodes,
    .make_format = make,
    .decode = decode};

}  // namespace nibble::formats
