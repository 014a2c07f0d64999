#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/printable.h"
#include "formats/code_type.h"

namespace nibble::formats {

/// What the arithmetic sees of the activations that enter a layer: float, or numbers of few bits
/// whose range is taken anew from each token (or from each group of its inputs), or stands with the
/// layer (stored_scale).
///
///   symmetric    s = clip * max|x| / (2^(bits-1) - 1)      x = s * q
///                q in [-8, 7] with 4 bits, [-4, 3] with 3, [-127, 127] with 8. -8 and -4 are used
///                only where the clip cuts (Atom, QuaRot: signed INT4 tensor cores take them);
///                -128 never is.
///   asymmetric   s = clip * (max - min) / (2^bits - 1)     x = s * (q - z)
///                over the range widened to contain 0; q and z in [0, 2^bits - 1], z =
///                round(-clip * min / s): 0 is exact.
///
/// These are integers. What other codes activations can be is for their types to say
/// (CodeType::as_activations).
///
/// Codes are rounded to nearest, ties to even, and cut at the ends of their range.
struct Activation {
  int bits = 0;                 // 0: float
  bool symmetric = true;        // asymmetric: an integer zero point for each scale
  std::int64_t group = 0;       // inputs that share a scale; 0: all inputs of a token
  float clip = 1.0f;            // the range is multiplied by it, in [0.1, 1]
  bool keeps_outliers = false;  // values of at least 6 stay in float (LLM.int8(), arXiv 2208.07339)
  const CodeType* type = &kIntegerCodes;
  bool stored_scale = false;  // symmetric, and one s for all tokens, which is stored with the layer

  bool is_float() const { return bits == 0; }
  /// Whether the arithmetic sees integers: codes, or what they become (CodeType::is_recoded).
  bool acts_as_integers() const { return !is_float() && type->activations == &kIntegerCodes; }
  /// Asymmetric codes of 3 and 4 bits fit INT8 after their zero is subtracted; those of 8 bits do
  /// not.
  bool carries_zeros() const { return bits == 8 && !symmetric; }

  friend bool operator==(const Activation&, const Activation&) = default;
};

/// The words of an activation in a scheme: "" for float, "a8", "a8o", "a8s", "a4", "a4-asym",
/// "a4g128", "a4g128c0.9". Behind the a stands the word of the type where codes are no integers.
std::string to_string(const Activation& activation);

/// The first of these words, without "asym"; nullopt when it is no such word.
std::optional<Activation> parse_activation(std::string_view word);

/// What is wrong with an activation, as the end of a message; empty when nothing is.
std::string_view problem_of(const Activation& activation);

}  // namespace nibble::formats

template <>
struct fmt::formatter<nibble::formats::Activation> : nibble::core::FormattedByToString {};
