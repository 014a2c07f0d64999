#include "formats/scheme.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"
#include "formats/book_size.h"
#include "formats/hadamard.h"
#include "formats/row_unit.h"

namespace nibble::formats {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;
using core::printable;
using core::require;

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;
constexpr std::int64_t kMaxHadamard = std::int64_t{1} << 30;
constexpr std::int64_t kMxGroup = 32;
constexpr std::int64_t kNvGroup = 16;

constexpr std::array<std::pair<std::string_view, DType>, 3> kDenseNames = {
    {{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}}};
constexpr std::array<std::pair<std::string_view, int>, 4> kIntNames = {
    {{"int2", 2}, {"int3", 3}, {"int4", 4}, {"int8", 8}}};
constexpr std::array<std::pair<std::string_view, int>, 3> kBookKindNames = {
    {{"lut2", 2}, {"lut3", 3}, {"lut4", 4}}};
constexpr std::array<std::pair<std::string_view, Book>, 5> kBookNames = {
    {{"nf4", Book::kNf4},
     {"fp4", Book::kFp4},
     {"af4", Book::kAf4},
     {"row", Book::kPerRow},
     {"matrix", Book::kPerMatrix}}};
constexpr std::array<std::pair<std::string_view, bool>, 2> kSymmetryNames = {
    {{"sym", true}, {"asym", false}}};

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

// "row" is 0, "g128" is 128.
std::optional<std::int64_t> parse_group(std::string_view word) {
  if (word == "row") {
    return 0;
  }
  return word.starts_with('g') ? parse_number(word.substr(1)) : std::nullopt;
}

// The part before the activation; nullopt when the words make no scheme.
std::optional<Scheme> parse_weight(Words& words) {
  Scheme scheme;
  const std::string_view kind = words.next();
  if (const auto dense = value_named(kDenseNames, kind)) {
    scheme.dense = *dense;
    return scheme;
  }
  if (kind == "mxfp4" || kind == "nvfp4") {
    const bool is_mx = kind == "mxfp4";
    scheme.kind = is_mx ? FormatKind::kMx : FormatKind::kNv;
    scheme.bits = 4;
    scheme.group = is_mx ? kMxGroup : kNvGroup;
    return scheme;
  }
  if (const auto bits = value_named(kIntNames, kind)) {
    const auto symmetric = value_named(kSymmetryNames, words.next());
    const auto group = parse_group(words.next());
    if (!symmetric || !group) {
      return std::nullopt;
    }
    scheme.kind = FormatKind::kInt;
    scheme.bits = *bits;
    scheme.symmetric = *symmetric;
    scheme.group = *group;
    return scheme;
  }
  if (const auto bits = value_named(kBookKindNames, kind)) {
    const auto book = value_named(kBookNames, words.next());
    const auto group = parse_group(words.next());
    if (!book || !group) {
      return std::nullopt;
    }
    scheme.kind = FormatKind::kLut4;
    scheme.bits = *bits;
    scheme.book = *book;
    scheme.group = *group;
    return scheme;
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
    scheme.scale_bits = kUnitScaleBits;
    return true;
  }
  if (word == "hrow") {
    scheme.hadamard = kWholeRow;
    return true;
  }
  if (word.starts_with("tail")) {
    const auto inputs = parse_number(word.substr(4));
    scheme.tail = inputs.value_or(0);
    return inputs.has_value();
  }
  if (word.starts_with('h')) {
    const auto size = parse_number(word.substr(1));
    scheme.hadamard = size.value_or(0);
    return size.has_value();
  }
  const auto activation = parse_activation(word);
  if (activation) {
    scheme.activation = *activation;
  }
  return activation.has_value();
}

std::string group_word(std::int64_t group) {
  return group == 0 ? "row" : fmt::format("g{}", group);
}

std::string hadamard_word(std::int64_t size) {
  if (size == kWholeRow) {
    return "hrow";
  }
  return size == 0 ? "" : fmt::format("h{}", size);
}

std::string weight_words(const Scheme& scheme) {
  switch (scheme.kind) {
    case FormatKind::kDense:
      return std::string(name_for(kDenseNames, scheme.dense));
    case FormatKind::kInt:
      return fmt::format("int{}-{}-{}", scheme.bits, name_for(kSymmetryNames, scheme.symmetric),
                         group_word(scheme.group));
    case FormatKind::kLut4:
      return fmt::format("lut{}-{}-{}", scheme.bits, name_for(kBookNames, scheme.book),
                         group_word(scheme.group));
    case FormatKind::kMx:
      return "mxfp4";
    case FormatKind::kNv:
      return "nvfp4";
  }
  return "?";
}

void require_only(bool condition, const Scheme& scheme, std::string_view problem) {
  require(condition, ErrorKind::kInvalidModel, "scheme '{}': {}", scheme, problem);
}

void validate_dense(const Scheme& scheme) {
  require_only(
      scheme.bits == 0 && scheme.group == 0 && scheme.book == Book::kNone && scheme.symmetric,
      scheme, "a dense weight has no bits, groups, zero points or code book");
  require_only(scheme.activation.is_float(), scheme,
               "quantized activations need weights with codes (int8-sym-row-a8)");
  require_only(scheme.hadamard == 0 && scheme.tail == 0 && scheme.scale_bits == 16, scheme,
               "a dense weight has no scales, no Hadamard and no tail");
}

void validate_codes(const Scheme& scheme) {
  require_only(scheme.dense == DType::kF32, scheme, "a weight with codes has no dense type");
  require_only(scheme.group >= 0 && scheme.group <= kMaxGroup, scheme,
               "the group is not in [0, 2^30]");
  require_only((scheme.book != Book::kNone) == (scheme.kind == FormatKind::kLut4), scheme,
               "lut4 needs a code book, and no other format has one");
  require_only(scheme.symmetric || scheme.kind == FormatKind::kInt, scheme,
               "only integers have zero points");
  require_only(scheme.scale_bits == 16 ||
                   (scheme.scale_bits == kUnitScaleBits && scheme.kind != FormatKind::kMx &&
                    scheme.kind != FormatKind::kNv && scheme.group > 0 && scheme.tail == 0),
               scheme,
               "only groups of integers and of code books have scales of 7 bits, and no tail");
  const std::string_view problem = problem_of(scheme.activation);
  require_only(problem.empty(), scheme, problem);
  const std::int64_t group = scheme.activation.group;
  require_only(
      group == 0 || scheme.group == 0 || group % scheme.group == 0 || scheme.group % group == 0,
      scheme, "the groups of weights and of activations must be multiples of each other");
  require_only(scheme.hadamard == 0 || scheme.hadamard == kWholeRow ||
                   (scheme.hadamard >= 2 && scheme.hadamard <= kMaxHadamard &&
                    hadamard_exists(scheme.hadamard)),
               scheme, "there is no Hadamard matrix of that size here");
  require_only(scheme.tail >= 0 && scheme.tail <= kMaxGroup, scheme,
               "the tail is not in [0, 2^30]");
  require_only(
      scheme.tail == 0 || (scheme.kind == FormatKind::kInt && scheme.bits < 8 &&
                           !scheme.activation.is_float() && !scheme.activation.keeps_outliers),
      scheme,
      "a tail stands behind integers of fewer than 8 bits whose activations are rounded, "
      "all of them (int4-sym-g128-a4-tail128)");
}

}  // namespace

std::string to_string(const Scheme& scheme) {
  std::string text = weight_words(scheme);
  text += scheme.scale_bits == 16 ? "" : fmt::format("-s{}", scheme.scale_bits);
  const auto add = [&](const std::string& words) { text += words.empty() ? "" : "-" + words; };
  add(to_string(scheme.activation));
  add(hadamard_word(scheme.hadamard));
  add(scheme.tail == 0 ? "" : fmt::format("tail{}", scheme.tail));
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
         "mxfp4, nvfp4",
         printable(text));
  }
  validate(*scheme);
  return *scheme;
}

void validate(const Scheme& scheme) {
  switch (scheme.kind) {
    case FormatKind::kDense:
      require_only(value_named(kDenseNames, weight_words(scheme)).has_value(), scheme,
                   "dense weights are f32, f16 or bf16");
      validate_dense(scheme);
      return;
    case FormatKind::kInt:
      require_only(scheme.bits == 2 || scheme.bits == 3 || scheme.bits == 4 || scheme.bits == 8,
                   scheme, "integers have 2, 3, 4 or 8 bits");
      break;
    case FormatKind::kLut4:
      require_only(
          scheme.bits == 4 || ((scheme.bits == 2 || scheme.bits == 3) && has_learned_book(scheme)),
          scheme, "codes of books have 4 bits, those of learned books (row, matrix) 2, 3 or 4");
      break;
    case FormatKind::kMx:
      require_only(scheme.bits == 4 && scheme.group == kMxGroup, scheme,
                   "mxfp4 has 4 bits and groups of 32");
      break;
    case FormatKind::kNv:
      require_only(scheme.bits == 4 && scheme.group == kNvGroup, scheme,
                   "nvfp4 has 4 bits and groups of 16");
      break;
  }
  validate_codes(scheme);
}

std::int64_t head_inputs(const Scheme& scheme, std::int64_t k) {
  return k - scheme.tail;
}

Scheme tail_scheme() {
  Scheme scheme;
  scheme.kind = FormatKind::kInt;
  scheme.bits = 8;
  scheme.activation.bits = 8;
  return scheme;
}

std::int64_t groups_per_row(const Scheme& scheme, std::int64_t k) {
  const std::int64_t head = head_inputs(scheme, k);
  if (scheme.kind == FormatKind::kDense) {
    return 0;
  }
  if (scheme.group == 0) {
    return 1;
  }
  return head / scheme.group + (head % scheme.group != 0 ? 1 : 0);
}

std::int64_t hadamard_size(const Scheme& scheme, std::int64_t k) {
  return scheme.hadamard == kWholeRow ? head_inputs(scheme, k) : scheme.hadamard;
}

void require_shape(const Scheme& scheme, std::int64_t n, std::int64_t k) {
  const bool whole_groups = scheme.kind == FormatKind::kMx || scheme.kind == FormatKind::kNv;
  require(!whole_groups || k % scheme.group == 0, ErrorKind::kInvalidModel,
          "{} needs inputs in multiples of {}, the layer is [{}, {}]; choose another scheme for it",
          scheme, scheme.group, n, k);
  require(scheme.tail < k, ErrorKind::kInvalidModel,
          "{}: a tail of {} inputs leaves nothing of a layer [{}, {}]", scheme, scheme.tail, n, k);
  if (scheme.hadamard == 0) {
    return;
  }
  const std::int64_t head = head_inputs(scheme, k);
  const std::int64_t size = hadamard_size(scheme, k);
  const std::int64_t last = head % size;
  require(hadamard_exists(size) && (last == 0 || hadamard_exists(last)), ErrorKind::kInvalidModel,
          "{}: there is no Hadamard matrix for {} inputs at the end of a layer [{}, {}] here; take "
          "blocks of another size (h64)",
          scheme, last == 0 ? size : last, n, k);
}

std::int64_t group_size(const Scheme& scheme, std::int64_t k) {
  return scheme.group == 0 ? head_inputs(scheme, k) : scheme.group;
}

}  // namespace nibble::formats
