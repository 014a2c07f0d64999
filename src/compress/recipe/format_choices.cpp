#include "compress/recipe/format_choices.h"

#include <algorithm>

#include "formats/super_blocks.h"

namespace nibble::compress {

using formats::Scheme;

std::vector<Scheme> format_choices(const Scheme& scheme) {
  const formats::ScaleType scale = scheme.scale.type;
  if (formats::has_supers(scheme)) {
    std::vector<Scheme> choices;
    for (const formats::SuperBlockType& type : formats::super_block_types()) {
      choices.push_back(formats::parse_scheme(type.scheme));
      choices.back().activation = scheme.activation;
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

}  // namespace nibble::compress
