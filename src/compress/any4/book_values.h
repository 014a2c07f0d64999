#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/any4/book_steps.h"
#include "compress/any4/kmeans.h"

namespace nibble::compress {

/// Calls use(point) for the scaled weights of a row, each counting as `problem` says. Those of
/// groups with the scale 0, which are pruned, are no points.
template <typename Use>
void for_each_point(const BookProblem& problem, std::span<const formats::GroupParameters> groups,
                    std::int64_t row, Use use) {
  const std::int64_t of_row = formats::groups_per_row(problem.scheme, problem.k);
  const std::int64_t width = formats::group_size(problem.scheme, problem.k);
  for (std::int64_t j = 0; j < problem.k; ++j) {
    const double scale = groups[static_cast<std::size_t>(row * of_row + j / width)].scale;
    if (scale == 0) {
      continue;
    }
    const double importance = problem.mean_squares[static_cast<std::size_t>(j)];
    const double weight = problem.kind == BookWeights::kExact
                              ? importance * scale * scale
                              : std::sqrt(importance) * std::abs(scale);
    use(WeightedPoint{problem.weights[static_cast<std::size_t>(row * problem.k + j)] / scale,
                      weight});
  }
}

/// Centres as a book stores them.
inline std::vector<float> book_values(std::span<const double> centres) {
  std::vector<float> values(centres.begin(), centres.end());
  if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0; })) {
    values.back() = 1;  // weights that are all zero leave the book without a unit
  }
  return values;
}

}  // namespace nibble::compress
