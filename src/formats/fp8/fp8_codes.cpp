#include "formats/fp8/fp8_codes.h"

#include <array>

#include "core/float8.h"
#include "formats/fp8/fp8_format.h"
#include "formats/nv/e4m3.h"

namespace nibble::formats {
namespace {

constexpr std::array<CodeWord, 1> kWords = {{{"fp8", 8}}};
constexpr std::array<int, 1> kActivationBits = {8};

std::unique_ptr<const Format> make(const Scheme& scheme, std::span<const float> /*book*/) {
  return make_fp8_format(scheme);
}

void decode(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
            const BookValues& /*book*/, float* out) {
  const float scale = parameters.scale;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    out[i] = scale * core::to_float(core::E4m3{codes[i]});
  }
}

bool is_number(std::uint8_t code) {
  return (code & kE4m3Nan) != kE4m3Nan;
}

}  // namespace

constinit const CodeType kFp8Codes = {
    .name = "E4M3 numbers",
    .example = "fp8-row",
    .rule = "E4M3 codes have 8 bits, no zero points and no code book",
    .words = kWords,
    .takes_groups = false,
    .fits_scales = false,
    .as_activations = {.bits = kActivationBits,
                       .whole_tokens = true,
                       .rule = "E4M3 activations have 8 bits, one scale for each token, no zero "
                               "points, clipping or outliers"},
    .activations = &kFp8Codes,
    .make_format = make,
    .decode = decode,
    .is_number = is_number};

}  // namespace nibble::formats
