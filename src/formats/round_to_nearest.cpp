#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "formats/format.h"
#include "formats/nv/nv_format.h"
#include "formats/row_unit.h"
#include "formats/row_unit_format.h"
#include "formats/super_blocks.h"
#include "formats/two_of_four.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::int64_t kRows = 16;  // of one task

void require_finite_row(std::span<const float> row, std::int64_t number) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    require(std::isfinite(row[i]), ErrorKind::kInvalidModel,
            "row {}, input {} of the weight is {}; quantization needs finite weights", number, i,
            row[i]);
  }
}

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Magnitudes from here on round to infinity.
float overflow_limit(core::DType dtype) {
  switch (dtype) {
    case core::DType::kF16:
      return 65520.0f;
    case core::DType::kBF16:
      return std::bit_cast<float>(0x7f7f8000u);
    default:
      return std::numeric_limits<float>::infinity();
  }
}

PackedWeight to_dense(std::span<const float> w, std::int64_t n, std::int64_t k, core::DType dtype) {
  const float limit = overflow_limit(dtype);
  const auto bad =
      std::find_if(w.begin(), w.end(), [limit](float value) { return std::abs(value) >= limit; });
  if (bad != w.end()) {
    core::fail(ErrorKind::kInvalidModel, "row {}, input {} of the weight is {}, too large for {}",
               (bad - w.begin()) / k, (bad - w.begin()) % k, *bad, core::name_of(dtype));
  }
  return dense_weight(core::from_float32(w, {n, k}, dtype));
}

// The unit of a row from the scales that its groups would have in fp16.
std::uint8_t fitted_unit(const Format& format, std::span<const float> row, std::size_t group) {
  float largest = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += group) {
    const auto weights = row.subspan(begin, std::min(group, row.size() - begin));
    largest = std::max(largest, std::abs(format.fit(weights).scale));
  }
  return unit_for(largest);
}

// The parameters of each block of whole rows that share a scale; none where no rows do.
std::vector<GroupParameters> fit_together(const Format& format, std::span<const float> w,
                                          std::int64_t rows, std::int64_t k) {
  std::vector<GroupParameters> shared;
  const std::size_t size = index(rows * k);
  for (std::size_t begin = 0; rows > 1 && begin < w.size(); begin += size) {
    shared.push_back(format.fit(w.subspan(begin, size)));
  }
  return shared;
}

}  // namespace

PackedWeight round_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                              const Scheme& scheme) {
  core::ThreadPool alone(1);
  return round_to_nearest(w, n, k, scheme, alone);
}

PackedWeight round_to_nearest(std::span<const float> w, std::int64_t n, std::int64_t k,
                              const Scheme& scheme, core::ThreadPool& pool,
                              std::span<const float> ranges) {
  const std::span<const float> fitted = ranges.empty() ? w : ranges;
  require(n >= 1 && k >= 1 && core::element_count({n, k}) == static_cast<std::int64_t>(w.size()),
          ErrorKind::kFailed, "{} values for a weight of shape [{}, {}]", w.size(), n, k);
  require(fitted.size() == w.size(), ErrorKind::kFailed, "ranges of {} weights for {}",
          fitted.size(), w.size());
  for (std::int64_t row = 0; row < n; ++row) {
    require_finite_row(w.subspan(index(row * k), index(k)), row);
  }
  if (!has_codes(scheme)) {
    validate(scheme);
    require_shape(scheme, n, k);
    const PackedWeight dense = to_dense(w, n, k, scheme.code.dense);
    if (is_dense(scheme)) {
      return dense;
    }
    return is_block_sparse(scheme) ? to_block_sparse(dense, scheme) : to_two_of_four(dense);
  }
  require(!stores_order(scheme), ErrorKind::kUsage,
          "{} needs an order of the inputs, which nothing gives here", scheme);
  PackedWeightBuilder builder(scheme, n, k);
  auto plain = make_format(scheme);
  if (scheme.scale.type == ScaleType::kE4m3) {
    const float global = nv_global(fitted);
    plain = make_nv_format(scheme, global);
    builder.set_global(global);
  }
  const std::int64_t inputs = group_size(scheme, k);
  const std::int64_t groups = groups_per_row(scheme, k);
  const std::int64_t rows_together = rows_per_scale(scheme, n);
  const std::vector<GroupParameters> shared = fit_together(*plain, fitted, rows_together, k);
  pool.parallel_for(n, kRows, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::uint8_t> codes(index(k));
    std::vector<GroupParameters> parameters(index(groups));
    const auto part = [&](auto row, std::int64_t group) {
      return row.subspan(index(group * inputs), index(std::min(inputs, k - group * inputs)));
    };
    for (std::int64_t row = first; row < last; ++row) {
      const auto weights = w.subspan(index(row * k), index(k));
      const auto to_fit = fitted.subspan(index(row * k), index(k));
      std::unique_ptr<const Format> with_unit;
      if (scheme.scale.type == ScaleType::kUnits) {
        const std::uint8_t unit = fitted_unit(*plain, to_fit, index(inputs));
        with_unit = make_row_unit_format(make_format(scheme), unit);
        builder.set_unit(row, unit);
      }
      const Format* const format = with_unit ? with_unit.get() : plain.get();
      for (std::int64_t group = 0; group < groups; ++group) {
        parameters[index(group)] =
            shared.empty() ? format->fit(part(to_fit, group)) : shared[index(row / rows_together)];
      }
      if (has_supers(scheme)) {
        builder.set_supers(row, round_to_supers(scheme, parameters));
      }
      for (std::int64_t group = 0; group < groups; ++group) {
        format->encode_group(part(weights, group), parameters[index(group)],
                             part(std::span(codes), group));
        builder.set_group(row, group, parameters[index(group)]);
      }
      builder.set_codes(row, codes);
    }
  });
  return builder.finish();
}

}  // namespace nibble::formats
