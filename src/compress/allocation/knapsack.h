#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nibble::compress {

/// One way to store one layer.
struct Offer {
  std::int64_t bytes = 0;
  double loss = 0;  // finite; what it costs elsewhere, in any unit
};

/// The offer of each layer for which the sum of losses is smallest while the bytes are at most
/// `budget`: the multiple-choice knapsack problem, by dynamic programming over sizes. Sizes above
/// each layer's smallest are rounded up to a unit of 1 / kKnapsackUnits of what the budget leaves,
/// so that the result can use that much less for each layer than the best; it never uses more than
/// the budget. Throws kUsage when even the smallest offers do not fit.
inline constexpr std::int64_t kKnapsackUnits = 1 << 16;
std::vector<std::size_t> choose_offers(std::span<const std::vector<Offer>> layers,
                                       std::int64_t budget);

}  // namespace nibble::compress
