#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/dtype.h"

namespace nibble::formats {

class BookValues;
class Format;
struct GroupParameters;
struct Scheme;

/// Where the values of a code book come from.
enum class Book {
  kNone,
  kNf4,        // NormalFloat4 (QLoRA, arXiv 2305.14314, appendix E)
  kE2m1,       // 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
  kAf4,        // AbnormalFloat4 with zero as a code, by group size (arXiv 2306.06965, own solution)
  kIq4,        // integers from -127 to 113, denser around 0 (IQ4_NL and IQ4_XS of GGUF)
  kPerRow,     // learned for each output row (any4, arXiv 2507.04610)
  kPerMatrix,  // learned for the whole matrix
};

/// Where 0 of an integer weight is.
enum class Zero {
  kNone,     // at code 2^(bits-1): the weights are symmetric
  kInteger,  // at a code that is stored for each group
  kReal,     // anywhere: code 0 stands for a minimum that is stored for each group
};

/// A first word of a scheme: "int4", "lut3", "bf16".
struct CodeWord {
  std::string_view word;
  int bits = 0;
  core::DType dense = core::DType::kF32;  // other than F32 only for weights without codes
  int used_bits = 0;                      // as Code::used_bits
};

/// A second word, where a type has several kinds of codes: "sym" and "asym", "nf4" and "row".
struct CodeVariant {
  std::string_view word;
  Book book = Book::kNone;
  Zero zero = Zero::kNone;
  int least_bits = 0;
};

/// Which activations can be codes of a type.
struct ActivationCodes {
  std::span<const int> bits = {};  // none: activations are never such codes
  bool whole_tokens = false;       // one scale for a token; no zero points, clipping or outliers
  bool zero_points = true;         // they may be asymmetric
  bool stored_scales = true;       // their scale may stand with the layer
  std::string_view rule = "activations have no codes of that type";  // this, for messages
};

/// What the codes of a weight stand for before their scale, and what the other axes of a scheme may
/// be beside them. The types are data: each is defined in a folder of its own, and code_types()
/// lists them. What is to hold for some types only asks for one of these properties.
struct CodeType {
  std::string_view name;     // of the values, for messages: "integers"
  std::string_view example;  // schemes, for messages
  std::string_view rule;     // which codes there are, as a sentence, for messages

  std::span<const CodeWord> words;
  std::span<const CodeVariant> variants = {};  // none: no second word, and no book and zeros
  bool takes_groups = true;  // the inputs of a row may have several scales, stored in any way;
                             // false: a float16 for each row or for more
  bool fits_scales = true;   // a scale can be fitted to its weights; false: the values are so dense
                             // on every scale that nothing is gained

  ActivationCodes as_activations = {};
  const CodeType* activations = nullptr;  // of rounded activations that such weights meet; or none

  /// The format of a valid scheme, as formats::make_format(). Null: the weights have no codes.
  std::unique_ptr<const Format> (*make_format)(const Scheme& scheme,
                                               std::span<const float> book) = nullptr;
  /// The weights of one group: out[codes.size()]. `book` is the row's, where codes are of one.
  void (*decode)(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                 const BookValues& book, float* out) = nullptr;
  /// Whether a code stands for a number. Null: all do.
  bool (*is_number)(std::uint8_t code) = nullptr;

  /// Of a type of activations: whether they are codes of another to the arithmetic (`activations`),
  /// as E2M1 numbers are integers. The rounding that does this is symmetric around 0.
  bool is_recoded() const { return activations != this; }
};

extern const CodeType kDenseCodes;    // no codes: the weights themselves, floats
extern const CodeType kIntegerCodes;  // code - zero
extern const CodeType kBookCodes;     // an entry of a table of 2^bits values

/// Every type of weights in this build; the one registration place is all.cpp.
std::span<const CodeType* const> code_types();
/// Those that activations can have, which need not be types of weights; there, too.
std::span<const CodeType* const> activation_types();

}  // namespace nibble::formats
