#include "compress/allocation/format_choices.h"

#include <algorithm>

#include "formats/book_size.h"

namespace nibble::compress {
namespace {

using formats::FormatKind;
using formats::Scheme;

std::vector<int> widths_of(const Scheme& scheme) {
  if (scheme.kind == FormatKind::kInt) {
    return {2, 3, 4, 8};
  }
  return formats::has_learned_book(scheme) ? std::vector{2, 3, 4} : std::vector{scheme.bits};
}

}  // namespace

std::vector<Scheme> format_choices(const Scheme& scheme) {
  if (scheme.kind != FormatKind::kInt && scheme.kind != FormatKind::kLut4) {
    return {scheme};
  }
  std::vector<std::int64_t> groups = {32, 64, 128};
  if (std::find(groups.begin(), groups.end(), scheme.group) == groups.end()) {
    groups.push_back(scheme.group);
  }
  std::vector<Scheme> choices;
  for (const int bits : widths_of(scheme)) {
    for (const std::int64_t group : groups) {
      Scheme choice = scheme;
      choice.bits = bits;
      choice.group = group;
      choices.push_back(choice);
    }
  }
  return choices;
}

}  // namespace nibble::compress
