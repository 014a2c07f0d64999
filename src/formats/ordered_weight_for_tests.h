#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/random.h"
#include "formats/format.h"

/// Weights whose inputs are stored in an order, as act-order leaves them, for tests.
namespace nibble::formats {

/// w [n, k] rounded to nearest in a random order of its inputs: the same for one seed.
inline PackedWeight ordered_weight(const std::vector<float>& w, std::int64_t n, std::int64_t k,
                                   const Scheme& scheme, std::uint64_t seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), 0);
  core::Random random(seed);
  for (std::size_t i = 1; i < order.size(); ++i) {
    std::swap(order[i],
              order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
  }
  std::vector<float> stored;
  for (std::int64_t row = 0; row < n; ++row) {
    for (const std::int32_t input : order) {
      stored.push_back(w[static_cast<std::size_t>(row * k + input)]);
    }
  }
  Scheme plain = scheme;
  plain.inputs.ordered = false;
  PackedWeight weight = round_to_nearest(stored, n, k, plain);
  weight.scheme = scheme;
  weight.permutation = core::Tensor::from<std::int32_t>(order, {1, k});
  validate(weight, "ordered_weight");
  return weight;
}

}  // namespace nibble::formats
