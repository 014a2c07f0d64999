#include "formats/trellis/trellis_code.h"

#include <algorithm>

#include "core/error.h"
#include "formats/format.h"
#include "formats/packed_weight.h"

namespace nibble::formats {
namespace {

constexpr std::array<CodeWord, 3> kWords = {{{"trellis2", 2}, {"trellis3", 3}, {"trellis4", 4}}};

void unpack_trellis(const PackedWeight& weight, std::int64_t row, std::int64_t begin,
                    std::span<std::uint8_t> codes) {
  const int bits = weight.scheme.code.bits;
  const auto bytes = weight.codes.data<std::uint8_t>();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::int64_t input = begin + static_cast<std::int64_t>(i);
    const auto run = bytes.subspan(run_offset(row, input, weight.k, bits),
                                   static_cast<std::size_t>(run_bytes(bits)));
    const std::int64_t place = run_place(row % kRunRows, input % kRunInputs);
    codes[i] = static_cast<std::uint8_t>(trellis_value(run_state(run, bits, place)) + kTrellisZero);
  }
}

void decode(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
            const BookValues& /*book*/, float* out) {
  const float scale = parameters.scale;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    out[i] = scale * static_cast<float>(codes[i] - kTrellisZero);
  }
}

}  // namespace

constinit const CodeType kTrellisCodes = {
    .name = "trellis codes",
    .example = "trellis4-row",
    .rule = "trellis codes have 2, 3 or 4 bits, no zero points and no code book",
    .words = kWords,
    .takes_groups = false,
    .fits_scales = false,
    .activations = &kIntegerCodes,
    .decode = decode};

constinit const Runs kTrellisRuns = {kRunRows, kRunInputs, unpack_trellis};

PackedWeight make_trellis_weight(const Scheme& scheme, std::int64_t n, std::int64_t k,
                                 std::span<const std::uint8_t> codes,
                                 std::span<const float> scales) {
  PackedWeightBuilder builder(scheme, n, k);
  for (std::int64_t row = 0; row < n; ++row) {
    builder.set_group(row, 0, {scales[static_cast<std::size_t>(row)], 0});
  }
  PackedWeight weight = builder.finish();
  const auto bytes = weight.codes.mutable_data<std::uint8_t>();
  core::require(codes.size() == bytes.size(), core::ErrorKind::kFailed,
                "{} bytes of runs for a weight of shape [{}, {}] in {}", codes.size(), n, k,
                scheme);
  std::copy(codes.begin(), codes.end(), bytes.begin());
  return weight;
}

std::uint16_t run_state(std::span<const std::uint8_t> run, int bits, std::int64_t place) {
  const auto bit = static_cast<std::size_t>(place * bits);
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 3; ++i) {  // 16 bits from any bit on lie in three bytes
    word |= std::uint32_t{run[(bit / 8 + i) % run.size()]} << (8 * i);
  }
  return static_cast<std::uint16_t>(word >> (bit % 8));
}

void pack_run(std::span<const std::uint16_t, kRunWeights> states, int bits,
              std::span<std::uint8_t> run) {
  std::fill(run.begin(), run.end(), std::uint8_t{0});
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto width = static_cast<std::size_t>(bits);
    for (std::size_t b = 0; b < width; ++b) {
      const std::size_t bit = i * width + b;
      run[bit / 8] = static_cast<std::uint8_t>(run[bit / 8] | (states[i] >> b & 1) << (bit % 8));
    }
  }
}

}  // namespace nibble::formats
