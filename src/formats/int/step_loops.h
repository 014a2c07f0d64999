#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/vector_level.h"
#include "formats/format.h"

namespace nibble::formats {

/// Codes that are equal steps apart, w = scale * (code - zero) + minimum: integers, and integers
/// with minima.
struct StepCodes {
  int first = 0;
  int last = 0;
};

/// Those of a scheme: is_integer(), with minima or not.
StepCodes step_codes(const Scheme& scheme);

/// The steps (w - minimum) / scale in float32, rounded to the nearest integer, ties to even; no
/// less than `low` and no more than `high`, which are below 2^22. NaN becomes the lowest.
///
/// The float32 quotient decides ties rightly: next to a tie t * scale, weights lie more than half a
/// unit in the last place of t apart when divided, because the significand of an fp16 scale is
/// below 2 and t * scale is exact.
///
/// `Float`: float, or a vector of them; all give the same bits.
template <typename Float>
NIBBLE_INLINE void round_steps(Float& steps, float scale, float minimum, float low, float high) {
  // Adding 1.5 * 2^23 leaves no fraction bits: the sum is rounded to nearest even.
  constexpr float kRounder = 0x1.8p23f;
  steps = (steps - minimum) / scale;
  steps = steps > low ? steps : Float{} + low;
  steps = steps < high ? steps : Float{} + high;
  steps = (steps + kRounder) - kRounder;
}

/// The code of one weight.
NIBBLE_INLINE std::uint8_t step_code(float weight, const GroupParameters& parameters,
                                     StepCodes codes) {
  round_steps(weight, parameters.scale, parameters.minimum,
              static_cast<float>(codes.first - parameters.zero),
              static_cast<float>(codes.last - parameters.zero));
  return static_cast<std::uint8_t>(static_cast<int>(weight) + parameters.zero);
}

// Loops over a group, for core::VectorVersions.

/// step_code() of each weight.
struct EncodeSteps {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(std::span<const float> weights, GroupParameters parameters,
                                StepCodes step_codes, std::span<std::uint8_t> codes) {
    const float* const from = weights.data();
    std::uint8_t* const to = codes.data();
    const std::size_t count = weights.size();
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = step_code(from[i], parameters, step_codes);
    }
  }
};

/// scale * (code - zero).
struct DecodeSteps {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(std::span<const std::uint8_t> codes, GroupParameters parameters,
                                std::span<float> values) {
    const std::uint8_t* const from = codes.data();
    float* const to = values.data();
    const std::size_t count = codes.size();
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = parameters.scale * static_cast<float>(static_cast<int>(from[i]) - parameters.zero);
    }
  }
};

/// scale * code + minimum, rounded twice.
struct DecodeMinima {
  template <int kVectorBytes>
  static NIBBLE_INLINE void run(std::span<const std::uint8_t> codes, GroupParameters parameters,
                                std::span<float> values) {
    const std::uint8_t* const from = codes.data();
    float* const to = values.data();
    const std::size_t count = codes.size();
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = parameters.scale * static_cast<float>(from[i]) + parameters.minimum;
    }
  }
};

}  // namespace nibble::formats
