#include "formats/fp4/e2m1_numbers.h"

#include <array>

namespace nibble::formats {
namespace {

constexpr std::array<CodeWord, 1> kWords = {{{"fp4", 4}}};
constexpr std::array<int, 1> kActivationBits = {4};

}  // namespace

constinit const CodeType kE2m1Numbers = {
    .name = "E2M1 numbers",
    .example = "lut4-fp4-g128-afp4g128",
    .rule = "E2M1 codes of weights are a code book (lut4-fp4)",
    .words = kWords,
    .as_activations = {.bits = kActivationBits,
                       .zero_points = false,
                       .stored_scales = false,
                       .rule = "E2M1 activations have 4 bits, no zero points, and scales of their "
                               "own for each token"},
    .activations = &kIntegerCodes,  // what they are to the arithmetic
};

}  // namespace nibble::formats
