#include "formats/exchange/integer_grid.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"
#include "formats/format.h"

namespace nibble::formats::exchange {
namespace {

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

Scheme scheme_of(const IntegerGrid& grid) {
  const auto middle = static_cast<std::uint8_t>(1 << (grid.bits - 1));
  const bool symmetric = std::all_of(grid.zeros.begin(), grid.zeros.end(),
                                     [&](std::uint8_t zero) { return zero == middle; });
  Scheme scheme;
  scheme.code = {.type = &kIntegerCodes, .bits = grid.bits};
  scheme.scale = {.type = ScaleType::kF16, .group = grid.group};
  scheme.zero = symmetric ? Zero::kNone : Zero::kInteger;
  scheme.inputs.ordered = !grid.order.empty();
  scheme.activation = grid.activation;
  return scheme;
}

// The codes of a row in the stored order of its inputs.
void gather(std::span<const std::uint8_t> codes, std::span<const std::int32_t> order,
            std::vector<std::uint8_t>& out) {
  out.assign(codes.begin(), codes.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    out[i] = codes[index(order[i])];
  }
}

}  // namespace

std::int64_t groups_of(std::int64_t k, std::int64_t group) {
  return group == 0 ? 1 : (k + group - 1) / group;
}

ReadLayer pack_grid(const IntegerGrid& grid, std::string_view layer) {
  const std::int64_t groups = groups_of(grid.k, grid.group);
  StoredScales scales(layer);
  PackedWeightBuilder builder(scheme_of(grid), grid.n, grid.k);
  if (!grid.order.empty()) {
    builder.set_permutation(grid.order);
  }
  for (std::int64_t row = 0; row < grid.n; ++row) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::size_t at = index(row * groups + group);
      const int zero = grid.zeros.empty() ? 1 << (grid.bits - 1) : grid.zeros[at];
      builder.set_group(row, group, {scales.round(grid.scales[at]), zero});
    }
  }
  for_row_ranges(grid.n, grid.k, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::uint8_t> codes;
    for (std::int64_t row = first; row < last; ++row) {
      gather(std::span(grid.codes).subspan(index(row * grid.k), index(grid.k)), grid.order, codes);
      builder.set_codes(row, codes);
    }
  });
  return {builder.finish(), scales.error(), {}};
}

}  // namespace nibble::formats::exchange
