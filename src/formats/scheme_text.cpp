// to_string() and parse_scheme(): a scheme as words.

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.h"
#include "formats/row_unit.h"
#include "formats/scheme.h"
#include "formats/scheme_number.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::fail;
using core::printable;

// Formats with names of their own.
struct NamedFormat {
  std::string_view name;
  Code code;
  Scale scale;
};
constexpr std::array<NamedFormat, 2> kNamedFormats = {
    {{"mxfp4", {&kBookCodes, 4, Book::kE2m1}, {ScaleType::kE8m0, 32}},
     {"nvfp4", {&kBookCodes, 4, Book::kE2m1}, {ScaleType::kE4m3, 16}}}};

constexpr std::string_view kTileWord = "t16";  // behind "bsr"
constexpr std::string_view kTwoOfFourWord = "2of4";

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

// The words behind `first`, which is one of the type's.
std::optional<Scheme> parse_codes(const CodeType& type, const CodeWord& first, Words& words) {
  Scheme scheme{
      .code = {
          .type = &type, .bits = first.bits, .dense = first.dense, .used_bits = first.used_bits}};
  if (!type.variants.empty()) {
    const std::string_view second = words.next();
    const auto variant =
        std::find_if(type.variants.begin(), type.variants.end(),
                     [&](const CodeVariant& entry) { return entry.word == second; });
    if (variant == type.variants.end()) {
      return std::nullopt;
    }
    scheme.code.book = variant->book;
    scheme.zero = variant->zero;
  }
  if (is_dense(scheme)) {
    return scheme;
  }
  const auto scale = parse_granularity(words.next());
  scheme.scale = scale.value_or(Scale());
  return scale ? std::optional(scheme) : std::nullopt;
}

// The part before the activation; nullopt when the words make no scheme.
std::optional<Scheme> parse_weight(Words& words) {
  const std::string_view first = words.next();
  for (const NamedFormat& format : kNamedFormats) {
    if (format.name == first) {
      return Scheme{.code = format.code, .scale = format.scale};
    }
  }
  for (const CodeType* const type : code_types()) {
    for (const CodeWord& word : type->words) {
      if (word.word == first) {
        return parse_codes(*type, word, words);
      }
    }
  }
  return std::nullopt;
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
  if (word == "s8") {
    scheme.scale.type = ScaleType::kMultiples;
    return true;
  }
  if (word.starts_with('g') && !has_codes(scheme)) {
    const auto group = parse_number(word.substr(1));
    scheme.scale.group = group.value_or(0);
    return group.has_value();
  }
  if (word == "bsr") {
    scheme.sparsity = Sparsity::kGroups;
    return true;
  }
  if (word == kTileWord && is_block_sparse(scheme)) {
    scheme.sparsity = Sparsity::kTileGroups;
    return true;
  }
  if (word == kTwoOfFourWord) {
    scheme.sparsity = Sparsity::kTwoOfFour;
    return true;
  }
  if (word == "hrow") {
    scheme.inputs.hadamard = kWholeRow;
    return true;
  }
  if (word == "order") {
    scheme.inputs.ordered = true;
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

std::string hadamard_word(std::int64_t size) {
  if (size == kWholeRow) {
    return "hrow";
  }
  return size == 0 ? "" : fmt::format("h{}", size);
}

// "?" stands for what no word says.
std::string_view code_word(const Code& code) {
  for (const CodeWord& word : code.type->words) {
    if (word.bits == code.bits && word.dense == code.dense && word.used_bits == code.used_bits) {
      return word.word;
    }
  }
  return "?";
}

std::string_view variant_word(const Scheme& scheme) {
  for (const CodeVariant& variant : scheme.code.type->variants) {
    if (variant.book == scheme.code.book && variant.zero == scheme.zero) {
      return variant.word;
    }
  }
  return "?";
}

std::string weight_words(const Scheme& scheme) {
  for (const NamedFormat& format : kNamedFormats) {
    if (scheme.code == format.code && scheme.scale == format.scale) {
      return std::string(format.name);
    }
  }
  std::string text(code_word(scheme.code));
  if (!scheme.code.type->variants.empty()) {
    text += fmt::format("-{}", variant_word(scheme));
  }
  const bool has_groups = has_codes(scheme) || scheme.scale.group != 0;
  return has_groups ? fmt::format("{}-{}", text, granularity_word(scheme.scale)) : text;
}

// Schemes that show how they are written.
std::string examples() {
  std::vector<std::string_view> all;
  for (const CodeType* const type : code_types()) {
    all.push_back(type->example);
  }
  for (const NamedFormat& format : kNamedFormats) {
    all.push_back(format.name);
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

std::string to_string(const Scheme& scheme) {
  std::string text = weight_words(scheme);
  text += scheme.scale.type == ScaleType::kUnits ? fmt::format("-s{}", kUnitScaleBits) : "";
  text += has_supers(scheme) ? "-s8" : "";
  text += is_block_sparse(scheme) ? "-bsr" : "";
  text += has_tile_pattern(scheme) ? fmt::format("-{}", kTileWord) : "";
  text += keeps_two_of_four(scheme) ? fmt::format("-{}", kTwoOfFourWord) : "";
  const auto add = [&](const std::string& words) { text += words.empty() ? "" : "-" + words; };
  add(to_string(scheme.activation));
  add(hadamard_word(scheme.inputs.hadamard));
  add(scheme.inputs.ordered ? "order" : "");
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
    fail(ErrorKind::kInvalidModel, "'{}' is not a scheme; examples: {}", printable(text),
         examples());
  }
  validate(*scheme);
  return *scheme;
}

}  // namespace nibble::formats
