#include "engine/log_probabilities.h"

#include <algorithm>
#include <cmath>

namespace nibble::engine {

TokenRecord record_of(std::span<const float> logits, std::int32_t token, std::int64_t count) {
  std::vector<ops::RankedToken> ranked;
  rank(logits, std::max<std::int64_t>(count, 1), ranked);
  const double largest = ranked.empty() ? 0.0 : ranked.front().logit;
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(logit - largest);
  }
  const double log_sum = largest + std::log(sum);
  const auto chance = [&](std::int32_t id) {
    return TokenChance{id, static_cast<float>(logits[static_cast<std::size_t>(id)] - log_sum)};
  };
  TokenRecord record{chance(token), {}};
  for (const ops::RankedToken& each : ranked) {
    if (static_cast<std::int64_t>(record.most_probable.size()) < count) {
      record.most_probable.push_back(chance(each.id));
    }
  }
  return record;
}

}  // namespace nibble::engine
