#include "formats/gguf_types.h"

#include <algorithm>
#include <vector>

namespace nibble::formats {
namespace {

using gguf_blocks::BlockForm;
using gguf_blocks::BlockScale;
using gguf_blocks::BlockType;

constexpr int kMostPackedBits = 4;  // codes of more bits are held in bytes

Code code_of(const BlockForm& form) {
  if (!form.book.empty()) {
    return {.type = &kBookCodes, .bits = form.bits, .book = Book::kIq4};
  }
  const bool held_in_byte = form.bits > kMostPackedBits && form.bits < 8;
  return {.type = &kIntegerCodes,
          .bits = held_in_byte ? 8 : form.bits,
          .used_bits = held_in_byte ? form.bits : 0};
}

std::string lower_case(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  return lower;
}

double bits_of(const RoundedType& type) {
  return 8.0 * static_cast<double>(type.blocks->block_bytes) /
         static_cast<double>(type.blocks->block_elements);
}

std::vector<RoundedType> all_types() {
  std::vector<RoundedType> types;
  for (const BlockType& type : gguf_blocks::block_types()) {
    if (const auto scheme = scheme_of_blocks(type)) {
      types.push_back({lower_case(type.name), *scheme, &type});
    }
  }
  std::stable_sort(types.begin(), types.end(), [](const RoundedType& a, const RoundedType& b) {
    return bits_of(a) < bits_of(b);
  });
  return types;
}

template <typename Predicate>
const BlockType* first_type(Predicate is_it) {
  const std::span<const RoundedType> types = rounded_types();
  const auto found = std::find_if(types.begin(), types.end(), is_it);
  return found == types.end() ? nullptr : found->blocks;
}

}  // namespace

std::span<const RoundedType> rounded_types() {
  static const std::vector<RoundedType> types = all_types();
  return types;
}

std::optional<Scheme> scheme_of_blocks(const BlockType& type) {
  if (type.form == nullptr) {
    return std::nullopt;
  }
  const BlockForm& form = *type.form;
  if (form.scale == BlockScale::kExponent) {
    return parse_scheme("mxfp4");
  }
  const bool multiples = form.scale == BlockScale::kMultiples;
  return Scheme{.code = code_of(form),
                .scale = {multiples ? ScaleType::kMultiples : ScaleType::kF16, form.group},
                .zero = form.minima ? Zero::kReal : Zero::kNone};
}

const BlockType* block_type_of(const Scheme& scheme) {
  Scheme weights = scheme;
  weights.activation = {};
  return first_type([&](const RoundedType& type) { return type.scheme == weights; });
}

const BlockType* find_block_type(std::string_view word) {
  return first_type([&](const RoundedType& type) { return type.word == word; });
}

bool is_of_gguf_alone(const Scheme& scheme) {
  return scheme.code.used_bits != 0 || scheme.code.book == Book::kIq4 || has_supers(scheme);
}

Scheme small_block_scheme(const Scheme& scheme) {
  Scheme small =
      parse_scheme(value_bits(scheme) <= kMostPackedBits ? "lut4-iq4-g32" : "int8-sym-g32");
  small.activation = scheme.activation;
  return small;
}

}  // namespace nibble::formats
