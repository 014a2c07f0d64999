// to_string() and parse_scheme(): a scheme as words.

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/error.h"
#include "formats/row_unit.h"
#include "formats/scheme.h"

namespace nibble::formats {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;
using core::printable;

constexpr std::array<std::pair<std::string_view, DType>, 3> kDenseNames = {
    {{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}}};
constexpr std::array<std::pair<std::string_view, int>, 4> kIntNames = {
    {{"int2", 2}, {"int3", 3}, {"int4", 4}, {"int8", 8}}};
constexpr std::array<std::pair<std::string_view, int>, 3> kBookKindNames = {
    {{"lut2", 2}, {"lut3", 3}, {"lut4", 4}}};
constexpr std::array<std::pair<std::string_view, Book>, 5> kBookNames = {
    {{"nf4", Book::kNf4},
     {"fp4", Book::kE2m1},
     {"af4", Book::kAf4},
     {"row", Book::kPerRow},
     {"matrix", Book::kPerMatrix}}};
constexpr std::array<std::pair<std::string_view, Zero>, 2> kZeroNames = {
    {{"sym", Zero::kNone}, {"asym", Zero::kInteger}}};
constexpr std::string_view kFloat8Name = "fp8";

// Formats with names of their own.
struct NamedFormat {
  std::string_view name;
  Code code;
  Scale scale;
};
constexpr std::array<NamedFormat, 2> kNamedFormats = {
    {{"mxfp4", {CodeType::kBook, 4, Book::kE2m1}, {ScaleType::kE8m0, 32, false}},
     {"nvfp4", {CodeType::kBook, 4, Book::kE2m1}, {ScaleType::kE4m3, 16, false}}}};

template <typename T, std::size_t kSize>
std::optional<T> value_named(const std::array<std::pair<std::string_view, T>, kSize>& table,
                             std::string_view name) {
  for (const auto& [entry, value] : table) {
    if (entry == name) {
      return value;
    }
  }
  return std::nullopt;
}

template <typename T, std::size_t kSize>
std::string_view name_for(const std::array<std::pair<std::string_view, T>, kSize>& table, T value) {
  for (const auto& [name, entry] : table) {
    if (entry == value) {
      return name;
    }
  }
  return "?";
}

// The words of a scheme, taken one after another: "int4-asym-g128" is int4, asym, g128.
class Words {
 public:
  explicit Words(std::string_view text) : rest_(text), more_(!text.empty()) {}

  bool done() const { return !more_; }

  std::string_view next() {
    const std::size_t dash = rest_.find('-');
    const std::string_view word = rest_.substr(0, dash);
    more_ = dash != std::string_view::npos;
    rest_.remove_prefix(more_ ? dash + 1 : rest_.size());
    return word;
  }

 private:
  std::string_view rest_;
  bool more_;  // a word is left, though it may be empty ("int4-")
};

// Only the form that to_string() writes: no sign, no leading zero.
std::optional<std::int64_t> parse_number(std::string_view word) {
  if (word.empty() || word[0] < '1' || word[0] > '9') {
    return std::nullopt;
  }
  std::int64_t number = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc() || stop != end) {
    return std::nullopt;
  }
  return number;
}

// float16 scales for "tensor", "row" or "g128".
std::optional<Scale> parse_scale(std::string_view word) {
  Scale scale{.type = ScaleType::kF16};
  if (word == "tensor") {
    scale.per_tensor = true;
    return scale;
  }
  if (word == "row") {
    return scale;
  }
  const auto group = word.starts_with('g') ? parse_number(word.substr(1)) : std::nullopt;
  scale.group = group.value_or(0);
  return group ? std::optional(scale) : std::nullopt;
}

// The part before the activation; nullopt when the words make no scheme.
std::optional<Scheme> parse_weight(Words& words) {
  const std::string_view first = words.next();
  if (const auto dense = value_named(kDenseNames, first)) {
    return Scheme{.code = {.dense = *dense}};
  }
  for (const NamedFormat& format : kNamedFormats) {
    if (format.name == first) {
      return Scheme{.code = format.code, .scale = format.scale};
    }
  }
  if (first == kFloat8Name) {
    const auto scale = parse_scale(words.next());
    return scale ? std::optional(
                       Scheme{.code = {.type = CodeType::kFloat, .bits = 8}, .scale = *scale})
                 : std::nullopt;
  }
  const auto integer_bits = value_named(kIntNames, first);
  const auto book_bits = value_named(kBookKindNames, first);
  if (!integer_bits && !book_bits) {
    return std::nullopt;
  }
  const std::string_view second = words.next();
  const auto zero = value_named(kZeroNames, second);
  const auto book = value_named(kBookNames, second);
  const auto scale = parse_scale(words.next());
  if (!scale || (integer_bits ? !zero : !book)) {
    return std::nullopt;
  }
  Scheme scheme{.scale = *scale};
  if (integer_bits) {
    scheme.code = {.type = CodeType::kInteger, .bits = *integer_bits};
    scheme.zero = *zero;
  } else {
    scheme.code = {.type = CodeType::kBook, .bits = *book_bits, .book = *book};
  }
  return scheme;
}

// One word behind the weight's. Order and repetition are judged by the round trip of the string.
bool add_word(std::string_view word, Scheme& scheme) {
  if (word == "asym") {
    scheme.activation.symmetric = false;
    return true;
  }
  if (word == "s7") {
    scheme.scale.type = ScaleType::kUnits;
    return true;
  }
  if (word == "hrow") {
    scheme.inputs.hadamard = kWholeRow;
    return true;
  }
  if (word.starts_with("tail")) {
    const auto inputs = parse_number(word.substr(4));
    scheme.inputs.tail = inputs.value_or(0);
    return inputs.has_value();
  }
  if (word.starts_with('h')) {
    const auto size = parse_number(word.substr(1));
    scheme.inputs.hadamard = size.value_or(0);
    return size.has_value();
  }
  const auto activation = parse_activation(word);
  if (activation) {
    scheme.activation = *activation;
  }
  return activation.has_value();
}

std::string scale_word(const Scale& scale) {
  if (scale.per_tensor) {
    return "tensor";
  }
  return scale.group == 0 ? "row" : fmt::format("g{}", scale.group);
}

std::string hadamard_word(std::int64_t size) {
  if (size == kWholeRow) {
    return "hrow";
  }
  return size == 0 ? "" : fmt::format("h{}", size);
}

std::string weight_words(const Scheme& scheme) {
  for (const NamedFormat& format : kNamedFormats) {
    if (scheme.code == format.code && scheme.scale == format.scale) {
      return std::string(format.name);
    }
  }
  switch (scheme.code.type) {
    case CodeType::kDense:
      return std::string(name_for(kDenseNames, scheme.code.dense));
    case CodeType::kInteger:
      return fmt::format("int{}-{}-{}", scheme.code.bits, name_for(kZeroNames, scheme.zero),
                         scale_word(scheme.scale));
    case CodeType::kBook:
      return fmt::format("lut{}-{}-{}", scheme.code.bits, name_for(kBookNames, scheme.code.book),
                         scale_word(scheme.scale));
    case CodeType::kFloat:
      return fmt::format("{}-{}", kFloat8Name, scale_word(scheme.scale));
  }
  return "?";
}

}  // namespace

std::string to_string(const Scheme& scheme) {
  std::string text = weight_words(scheme);
  text += scheme.scale.type == ScaleType::kUnits ? fmt::format("-s{}", kUnitScaleBits) : "";
  const auto add = [&](const std::string& words) { text += words.empty() ? "" : "-" + words; };
  add(to_string(scheme.activation));
  add(hadamard_word(scheme.inputs.hadamard));
  add(scheme.inputs.tail == 0 ? "" : fmt::format("tail{}", scheme.inputs.tail));
  return text;
}

Scheme parse_scheme(std::string_view text) {
  Words words(text);
  std::optional<Scheme> scheme = parse_weight(words);
  while (scheme && !words.done()) {
    if (!add_word(words.next(), *scheme)) {
      scheme.reset();
    }
  }
  if (!scheme || to_string(*scheme) != text) {
    fail(ErrorKind::kInvalidModel,
         "'{}' is not a scheme; examples: f16, int4-asym-g128, int8-sym-row-a8, lut4-nf4-g64, "
         "fp8-row, mxfp4, nvfp4",
         printable(text));
  }
  validate(*scheme);
  return *scheme;
}

}  // namespace nibble::formats
