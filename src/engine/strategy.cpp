#include "engine/strategy.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace nibble::engine {
namespace {

Strategy extended(Strategy strategy, models::LayerPart part, const PartOption& option) {
  if (option.scheme) {
    strategy.schemes.emplace(part, *option.scheme);
  }
  strategy.microseconds += option.microseconds;
  strategy.loss += std::max(0.0, option.loss);
  return strategy;
}

}  // namespace

std::vector<Strategy> rank_strategies(const PartOptions& options, double max_loss) {
  std::vector<Strategy> strategies = {{}};
  for (const auto& [part, of_part] : options) {
    std::vector<Strategy> longer;
    for (const Strategy& strategy : strategies) {
      for (const PartOption& option : of_part) {
        Strategy next = extended(strategy, part, option);
        if (std::isfinite(option.loss) && next.loss <= max_loss) {
          longer.push_back(std::move(next));
        }
      }
    }
    strategies = std::move(longer);
  }
  std::stable_sort(strategies.begin(), strategies.end(), [](const Strategy& a, const Strategy& b) {
    return std::tie(a.microseconds, a.loss) < std::tie(b.microseconds, b.loss);
  });
  return strategies;
}

Strategy first_that_holds(const std::vector<Strategy>& ranked,
                          const std::function<bool(const Strategy&)>& holds) {
  int trials = 0;
  for (const Strategy& strategy : ranked) {
    if (strategy.schemes.empty() || trials == kMostTrials) {
      break;
    }
    ++trials;
    if (holds(strategy)) {
      return strategy;
    }
  }
  return {};
}

}  // namespace nibble::engine
