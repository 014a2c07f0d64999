#include "compress/recipe/format_choices.h"

#include <algorithm>

#include "formats/gguf_types.h"

namespace nibble::compress {

using formats::Scheme;

std::vector<Scheme> format_choices(const Scheme& scheme) {
  const formats::ScaleType scale = scheme.scale.type;
  if (formats::is_of_gguf_alone(scheme)) {
    std::vector<Scheme> choices = gguf_choices();
    for (Scheme& choice : choices) {
      choice.activation = scheme.activation;
    }
    return choices;
  }
  if (scale != formats::ScaleType::kF16 && scale != formats::ScaleType::kUnits) {
    return {scheme};  // formats of one size, and dense ones
  }
  std::vector<std::int64_t> groups = {32, 64, 128};
  if (std::find(groups.begin(), groups.end(), scheme.scale.group) == groups.end()) {
    groups.push_back(scheme.scale.group);
  }
  std::vector<Scheme> choices;
  for (const formats::CodeWord& word : scheme.code.type->words) {
    if (word.used_bits != 0) {
      continue;  // as large as those of all bits
    }
    for (const std::int64_t group : groups) {
      Scheme choice = scheme;
      choice.code.bits = word.bits;
      choice.scale.group = group;
      if (formats::problem_of(choice).empty()) {
        choices.push_back(choice);
      }
    }
  }
  return choices;
}

std::vector<Scheme> gguf_choices() {
  std::vector<Scheme> choices;
  for (const formats::RoundedType& type : formats::rounded_types()) {
    choices.push_back(type.scheme);
  }
  return choices;
}

}  // namespace nibble::compress
