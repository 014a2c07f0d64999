#include "compress/recipe/format_choices.h"

#include <algorithm>

namespace nibble::compress {
namespace {

using formats::Scheme;

std::vector<int> widths_of(const Scheme& scheme) {
  if (formats::is_integer(scheme)) {
    return {2, 3, 4, 8};
  }
  return formats::has_learned_book(scheme) ? std::vector{2, 3, 4} : std::vector{scheme.code.bits};
}

}  // namespace

std::vector<Scheme> format_choices(const Scheme& scheme) {
  const formats::ScaleType scale = scheme.scale.type;
  if (scale != formats::ScaleType::kF16 && scale != formats::ScaleType::kUnits) {
    return {scheme};  // formats of one size, and dense ones
  }
  std::vector<std::int64_t> groups = {32, 64, 128};
  if (std::find(groups.begin(), groups.end(), scheme.scale.group) == groups.end()) {
    groups.push_back(scheme.scale.group);
  }
  std::vector<Scheme> choices;
  for (const int bits : widths_of(scheme)) {
    for (const std::int64_t group : groups) {
      Scheme choice = scheme;
      choice.code.bits = bits;
      choice.scale.group = group;
      choices.push_back(choice);
    }
  }
  return choices;
}

}  // namespace nibble::compress
