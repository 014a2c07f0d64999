#include "formats/exchange/integer_grid.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/float16.h"
#include "formats/exchange/affine_groups.h"
#include "formats/exchange/row_ranges.h"
#include "formats/exchange/stored_scales.h"
#include "formats/exchange/word_stream.h"
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

namespace {

// Codes of a row in the order of the layer's inputs.
void scatter(std::span<const std::uint8_t> codes, const core::Tensor& permutation,
             std::span<std::uint8_t> out) {
  if (permutation.empty()) {
    std::copy(codes.begin(), codes.end(), out.begin());
    return;
  }
  const auto order = permutation.data<std::int32_t>();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    out[index(order[i])] = codes[i];
  }
}

void unpack_rows(const PackedWeight& weight, IntegerGrid& grid) {
  const PackedWeight head = head_of(weight);
  const std::size_t groups = index(groups_of(grid.k, grid.group));
  for_row_ranges(grid.n, grid.k, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::uint8_t> codes(index(grid.k));
    for (std::int64_t row = first; row < last; ++row) {
      unpack_codes(head, row, codes);
      scatter(codes, weight.permutation,
              std::span(grid.codes).subspan(index(row * grid.k), index(grid.k)));
      unpack_scales(head, row, std::span(grid.scales).subspan(index(row) * groups, groups));
      if (!grid.zeros.empty()) {
        unpack_zeros(head, row, std::span(grid.zeros).subspan(index(row) * groups, groups));
      }
      if (!grid.minima.empty()) {
        unpack_minima(head, row, std::span(grid.minima).subspan(index(row) * groups, groups));
      }
    }
  });
}

// Groups of `group` inputs; 0: whole rows.
bool divide_groups(IntegerGrid& grid, std::int64_t group) {
  if (group == grid.group || (group == 0 && groups_of(grid.k, grid.group) == 1)) {
    grid.group = group;
    return true;
  }
  if (group == 0 || (grid.group % group != 0 && grid.group != 0) || !grid.order.empty()) {
    return false;
  }
  const std::int64_t before = groups_of(grid.k, grid.group);
  const std::int64_t after = groups_of(grid.k, group);
  std::vector<float> scales(index(grid.n * after));
  std::vector<std::uint8_t> zeros(grid.zeros.empty() ? 0 : scales.size());
  std::vector<float> minima(grid.minima.empty() ? 0 : scales.size());
  for (std::int64_t i = 0; i < grid.n * after; ++i) {
    const std::int64_t from = grid.group == 0 ? 0 : i % after * group / grid.group;
    const std::size_t at = index(i / after * before + from);
    scales[index(i)] = grid.scales[at];
    if (!zeros.empty()) {
      zeros[index(i)] = grid.zeros[at];
    }
    if (!minima.empty()) {
      minima[index(i)] = grid.minima[at];
    }
  }
  grid.scales = std::move(scales);
  grid.zeros = std::move(zeros);
  grid.minima = std::move(minima);
  grid.group = group;
  return true;
}

// Symmetric codes stand around the middle of their range.
void widen(IntegerGrid& grid, int bits) {
  const int shift = (1 << (bits - 1)) - (1 << (grid.bits - 1));
  if (grid.zeros.empty() && grid.minima.empty() && shift > 0) {
    for (std::uint8_t& code : grid.codes) {
      code = static_cast<std::uint8_t>(code + shift);
    }
  }
  grid.bits = bits;
}

core::Tensor float16_of(const std::vector<float>& values, core::Shape shape) {
  core::require(
      std::all_of(values.begin(), values.end(),
                  [](float value) { return core::to_float(core::to_fp16(value)) == value; }),
      core::ErrorKind::kFailed, "a scale is no float16");
  return core::from_float32(values, std::move(shape), core::DType::kF16);
}

}  // namespace

bool moves_to(const Scheme& from, const Scheme& to) {
  const std::int64_t group = from.scale.group;
  const bool divides =
      group == to.scale.group || group == 0 || (to.scale.group != 0 && group % to.scale.group == 0);
  return is_integer(from) && from.inputs.hadamard == 0 && from.inputs.tail == 0 &&
         from.code.bits <= to.code.bits && value_bits(from) <= value_bits(to) &&
         (!has_zeros(from) || has_zeros(to)) && has_minima(from) == has_minima(to) &&
         (!from.inputs.ordered || to.inputs.ordered) && from.activation == to.activation && divides;
}

WithZeroPoints with_zero_points(const IntegerGrid& grid, std::string_view layer) {
  const AffineGroups affine{.bits = grid.bits,
                            .n = grid.n,
                            .k = grid.k,
                            .group = grid.group,
                            .codes = grid.codes,
                            .scales = grid.scales,
                            .biases = grid.minima};
  NearestGrid nearest = nearest_grid(affine, grid.bits, layer);
  return {std::move(nearest.grid), nearest.error};
}

int zero_of(const IntegerGrid& grid, std::size_t at) {
  return grid.zeros.empty() ? 1 << (grid.bits - 1) : grid.zeros[at];
}

std::optional<IntegerGrid> grid_of(const PackedWeight& weight) {
  const Scheme& scheme = weight.scheme;
  if (!is_integer(scheme) || has_supers(scheme) || scheme.inputs.hadamard != 0 ||
      scheme.inputs.tail != 0) {
    return std::nullopt;
  }
  IntegerGrid grid{.bits = scheme.code.bits, .n = weight.n, .k = weight.k};
  grid.group = scheme.scale.group;
  const std::int64_t groups = groups_of(grid.k, grid.group);
  grid.codes.resize(index(grid.n * grid.k));
  grid.scales.resize(index(grid.n * groups));
  grid.zeros.resize(has_zeros(scheme) ? grid.scales.size() : 0);
  grid.minima.resize(has_minima(scheme) ? grid.scales.size() : 0);
  unpack_rows(weight, grid);
  if (!weight.permutation.empty() && groups > 1) {
    const auto order = weight.permutation.data<std::int32_t>();
    grid.order.assign(order.begin(), order.end());
  }
  grid.activation = scheme.activation;
  return grid;
}

std::optional<IntegerGrid> fitted(IntegerGrid grid, const Scheme& scheme) {
  const auto middle = static_cast<std::uint8_t>(1 << (grid.bits - 1));
  if (std::all_of(grid.zeros.begin(), grid.zeros.end(),
                  [&](std::uint8_t zero) { return zero == middle; })) {
    grid.zeros.clear();
  }
  if (grid.minima.empty() == has_minima(scheme) || grid.bits > scheme.code.bits ||
      (!grid.zeros.empty() && !has_zeros(scheme)) ||
      (!grid.order.empty() && !scheme.inputs.ordered) || !divide_groups(grid, scheme.scale.group)) {
    return std::nullopt;
  }
  widen(grid, scheme.code.bits);
  grid.activation = scheme.activation;
  return grid;
}

core::Tensor words_of_codes(const IntegerGrid& grid) {
  const std::int64_t columns = words_for(grid.k, grid.bits);
  core::Tensor tensor = core::Tensor::zeros(core::DType::kI32, {grid.n, columns});
  const auto words = tensor.mutable_data<std::int32_t>();
  for_row_ranges(grid.n, grid.k, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) {
      for (std::int64_t k = 0; k < grid.k; ++k) {
        put_number(words.subspan(index(n * columns)), 1, grid.bits, k,
                   grid.codes[index(n * grid.k + k)]);
      }
    }
  });
  return tensor;
}

core::Tensor scales_by_group(const IntegerGrid& grid) {
  const std::int64_t groups = groups_of(grid.k, grid.group);
  return float16_of(transposed(grid.scales, grid.n, groups), {groups, grid.n});
}

core::Tensor scales_by_row(const IntegerGrid& grid) {
  return float16_of(grid.scales, {grid.n, groups_of(grid.k, grid.group)});
}

}  // namespace nibble::formats::exchange
