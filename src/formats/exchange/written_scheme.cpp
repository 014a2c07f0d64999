#include "formats/exchange/written_scheme.h"

#include <algorithm>

#include <fmt/format.h>

namespace nibble::formats::exchange {
namespace {

constexpr std::int64_t kLeastNewGroup = 32;

}  // namespace

Scheme integer_scheme(int bits, std::int64_t group, Zero zero) {
  Scheme scheme;
  scheme.code = {.type = &kIntegerCodes, .bits = bits};
  scheme.scale = {.type = ScaleType::kF16, .group = group};
  scheme.zero = zero;
  return scheme;
}

std::int64_t written_group(const Scheme& scheme) {
  const std::int64_t group = scheme.scale.group;
  const bool moved = is_integer(scheme) && !has_minima(scheme) && !has_supers(scheme);
  return group == 0 || moved ? group : std::max(group, kLeastNewGroup);
}

std::string problem_of_groups(const Scheme& scheme, std::int64_t k) {
  const std::int64_t group = scheme.scale.group;
  return group == 0 || k % group == 0
             ? ""
             : fmt::format("groups of {} don't divide its {} inputs", group, k);
}

std::int64_t written_group_size(const Scheme& scheme) {
  return scheme.scale.group == 0 ? -1 : scheme.scale.group;
}

}  // namespace nibble::formats::exchange
