#include "engine/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nibble::engine {

TokenRecord record_of(std::span<const float> logits, std::int32_t token, std::int64_t count) {
  std::vector<ops::RankedToken> ranked;
  rank(logits, std::max<std::int64_t>(count, 1), ranked);
  const double largest = ranked.empty() ? 0.0 : ranked.front().logit;
  const float own = logits[static_cast<std::size_t>(token)];
  double sum = 0;
  std::int64_t before = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    sum += std::exp(logits[id] - largest);
    before += logits[id] > own || (logits[id] == own && std::cmp_less(id, token)) ? 1 : 0;
  }
  const double log_sum = largest + std::log(sum);
  const auto chance = [&](std::int32_t id) {
    return TokenChance{id, static_cast<float>(logits[static_cast<std::size_t>(id)] - log_sum)};
  };
  TokenRecord record{chance(token), before + 1, {}};
  for (const ops::RankedToken& each : ranked) {
    if (static_cast<std::int64_t>(record.most_probable.size()) < count) {
      record.most_probable.push_back(chance(each.id));
    }
  }
  return record;
}

}  // namespace nibble::engine
