#include "formats/exchange/group_order.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace nibble::formats::exchange {

using core::ErrorKind;

std::vector<std::int32_t> order_by_group(std::span<const std::int32_t> group_of, std::int64_t group,
                                         std::string_view layer) {
  const auto k = static_cast<std::int64_t>(group_of.size());
  std::vector<std::int32_t> order(group_of.size());
  std::iota(order.begin(), order.end(), 0);
  const auto of = [&](std::int32_t input) { return group_of[static_cast<std::size_t>(input)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return of(a) < of(b); });
  bool moved = false;
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int32_t input = order[static_cast<std::size_t>(i)];
    core::require(of(input) == i / group, ErrorKind::kInvalidModel,
                  "{}.g_idx: input {} is in group {}, which leaves groups of {} inputs uneven",
                  core::printable(layer), input, of(input), group);
    moved = moved || input != i;
  }
  return moved ? order : std::vector<std::int32_t>();
}

}  // namespace nibble::formats::exchange
