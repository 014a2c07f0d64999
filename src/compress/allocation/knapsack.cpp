#include "compress/allocation/knapsack.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace nibble::compress {
namespace {

std::int64_t smallest_bytes(const std::vector<Offer>& offers) {
  return std::min_element(offers.begin(), offers.end(),
                          [](const Offer& a, const Offer& b) { return a.bytes < b.bytes; })
      ->bytes;
}

}  // namespace

std::vector<std::size_t> choose_offers(std::span<const std::vector<Offer>> layers,
                                       std::int64_t budget) {
  std::int64_t least = 0;
  for (const auto& offers : layers) {
    least += smallest_bytes(offers);
  }
  core::require(least <= budget, core::ErrorKind::kUsage,
                "the smallest formats take {} bytes, {} may be used", least, budget);
  const std::int64_t unit = std::max<std::int64_t>(1, (budget - least) / kKnapsackUnits);
  const auto sizes = static_cast<std::size_t>((budget - least) / unit) + 1;

  // loss[s]: the smallest sum of the layers so far that s units above the least hold.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> loss(sizes, 0.0);
  std::vector<std::vector<std::uint16_t>> chosen;
  for (const auto& offers : layers) {
    const std::int64_t smallest = smallest_bytes(offers);
    std::vector<double> next(sizes, kNever);
    std::vector<std::uint16_t> choice(sizes, 0);
    for (std::size_t i = 0; i < offers.size(); ++i) {
      const auto units = static_cast<std::size_t>((offers[i].bytes - smallest + unit - 1) / unit);
      for (std::size_t s = units; s < sizes; ++s) {
        const double sum = loss[s - units] + offers[i].loss;
        if (sum < next[s]) {
          next[s] = sum;
          choice[s] = static_cast<std::uint16_t>(i);
        }
      }
    }
    loss = std::move(next);
    chosen.push_back(std::move(choice));
  }

  std::vector<std::size_t> result(layers.size());
  std::size_t left = sizes - 1;
  for (std::size_t layer = layers.size(); layer-- > 0;) {
    const std::size_t i = chosen[layer][left];
    result[layer] = i;
    const std::int64_t extra = layers[layer][i].bytes - smallest_bytes(layers[layer]);
    left -= static_cast<std::size_t>((extra + unit - 1) / unit);
  }
  return result;
}

}  // namespace nibble::compress
