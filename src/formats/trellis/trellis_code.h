#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/code_type.h"
#include "formats/runs.h"
#include "formats/scheme.h"
#include "formats/trellis/trellis_value.h"

namespace nibble::formats {

/// Weights as paths through a trellis, trellis2-row, trellis3-row and trellis4-row: 256 weights
/// share a circle of 256 * bits bits, and weight i stands for the 16 bits that begin at bit
/// i * bits. Neighbours share all but `bits` of theirs, so each weight costs `bits` bits and yet
/// has 2^16 states to choose from, as far as its neighbours leave a choice (trellis-coded
/// quantization; "bitshift" trellises that bite their tails: QTIP, arXiv 2406.11235, section 3).
///
///   bits = 4      bit   0    4    8    12   16   20          ... 1020        (then 0 again)
///   weight 0            [----------------)
///   weight 1                 [----------------)
///   weight 255     ----------)                                   [----
///
///   w = scale * kTrellisBook[hash of the 16 bits]      hash(s) = (s * 47485 mod 2^16) >> 8
///
/// The multiplier was searched: of 20 odd ones it gives the smallest errors at 2, 3 and 4 bits.
/// Values are integers of 8 bits, so products with INT8 activations are exact.
///
/// A run is a square of 16 rows and 16 inputs. Its weights stand in the order of the lines of a
/// CPU's tile: 4 inputs of all rows, then the next 4; of each row's 4 the first input first. The
/// runs of 16 rows lie one after another, and take the bytes that 16 rows of integers would.
extern const CodeType kTrellisCodes;
extern const Runs kTrellisRuns;

inline constexpr std::int64_t kRunRows = 16;
inline constexpr std::int64_t kRunInputs = 16;
inline constexpr std::int64_t kRunWeights = kRunRows * kRunInputs;
inline constexpr int kTrellisZero = 128;  // codes of single weights are their value and this

inline bool has_trellis(const Scheme& scheme) {
  return scheme.code.type == &kTrellisCodes;
}

constexpr std::int64_t run_bytes(int bits) {
  return kRunWeights / 8 * bits;
}

/// Where a weight of a run stands in its circle.
constexpr std::int64_t run_place(std::int64_t row, std::int64_t input) {
  return input / 4 * (4 * kRunRows) + row * 4 + input % 4;
}

/// The state of the weight at a place. `run` has run_bytes(bits) bytes.
std::uint16_t run_state(std::span<const std::uint8_t> run, int bits, std::int64_t place);

/// The circle of 256 states, each of which must share its bits with the next: the bytes of a run.
void pack_run(std::span<const std::uint16_t, kRunWeights> states, int bits,
              std::span<std::uint8_t> run);

/// Where the run of some row and input begins, in the bytes of a weight of k inputs.
constexpr std::size_t run_offset(std::int64_t row, std::int64_t input, std::int64_t k, int bits) {
  const std::int64_t run = row / kRunRows * (k / kRunInputs) + input / kRunInputs;
  return static_cast<std::size_t>(run * run_bytes(bits));
}

/// A weight of the bytes of its runs, one after another, and of the scales of its rows, which are
/// fp16 values.
PackedWeight make_trellis_weight(const Scheme& scheme, std::int64_t n, std::int64_t k,
                                 std::span<const std::uint8_t> codes,
                                 std::span<const float> scales);

}  // namespace nibble::formats
