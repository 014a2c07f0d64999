// What shares a scale: the words of schemes, and what goes with them.

#include <array>

#include <fmt/format.h>

#include "formats/scheme.h"
#include "formats/scheme_number.h"

namespace nibble::formats {
namespace {

constexpr std::int64_t kMaxGroup = std::int64_t{1} << 30;

// Beside groups of any size, "g128".
struct Granularity {
  std::string_view word;
  std::int64_t rows;  // whole ones
};
constexpr std::array<Granularity, 2> kGranularities = {{{"row", 1}, {"tensor", kAllRows}}};

}  // namespace

std::string granularity_word(const Scale& scale) {
  if (scale.group != 0) {
    return fmt::format("g{}", scale.group);
  }
  for (const auto& [word, rows] : kGranularities) {
    if (scale.rows == rows) {
      return std::string(word);
    }
  }
  return "?";
}

std::optional<Scale> parse_granularity(std::string_view word) {
  for (const auto& [name, rows] : kGranularities) {
    if (name == word) {
      return Scale{.type = ScaleType::kF16, .rows = rows};
    }
  }
  const auto group = word.starts_with('g') ? parse_number(word.substr(1)) : std::nullopt;
  return group ? std::optional(Scale{.type = ScaleType::kF16, .group = *group}) : std::nullopt;
}

std::string problem_of_granularity(const Scheme& scheme) {
  const auto [type, group, rows] = scheme.scale;
  if (group < 0 || group > kMaxGroup) {
    return "the group is not in [0, 2^30]";
  }
  if (granularity_word(scheme.scale) == "?" || (group != 0 && rows != 1)) {
    return "a scale is that of a row, of inputs of a row, or of all rows";
  }
  const bool whole = group == 0 && type == ScaleType::kF16;
  if (rows != 1 && (!whole || has_book(scheme) || has_zeros(scheme) || scheme.inputs.tail != 0)) {
    return "one scale for the whole matrix is a float16, for codes without zero points and books, "
           "and without a tail (int8-sym-tensor)";
  }
  if (!scheme.code.type->takes_groups && !whole) {
    return fmt::format("{} have a float16 scale for each row, or one for the matrix",
                       scheme.code.type->name);
  }
  return "";
}

}  // namespace nibble::formats
