#include "ops/row_draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::ops {

std::int32_t draw_from_row(std::span<const float> logits, const TokenDraw& draw,
                           RowWeights& weights) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const float first = *largest;
  if (!std::isfinite(first)) {
    return static_cast<std::int32_t>(largest - logits.begin());
  }
  weights.before.clear();
  for (const float logit : logits) {
    weights.before.push_back(weight_of(logit, first));
  }
  if (draw.temperature == 1.0f) {
    weights.behind = weights.before;
  } else {
    weights.behind.clear();
    for (const float logit : logits) {
      weights.behind.push_back(weight_of(logit, first, draw.temperature));
    }
  }
  const TokenWeight wanted =
      share_of(std::accumulate(weights.before.begin(), weights.before.end(), TokenWeight{0}),
               static_cast<double>(draw.top_p));
  const TokenWeight least = share_of(kFirstWeight, static_cast<double>(draw.min_p));
  const auto stands_before = [&](std::size_t i, std::size_t other) {
    return logits[i] > logits[other] || (logits[i] == logits[other] && i < other);
  };
  std::size_t bound = logits.size();  // tokens stand before it
  for (double uniform = draw.uniform;; uniform = next_uniform(uniform)) {
    const auto may_come = [&](std::size_t i) {
      return weights.before[i] >= least && (bound == logits.size() || stands_before(i, bound));
    };
    TokenWeight sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      sum += may_come(i) ? weights.behind[i] : 0;
    }
    TokenWeight left = share_of(sum, uniform);
    std::size_t drawn = 0;
    while (!may_come(drawn) || left >= weights.behind[drawn]) {
      left -= may_come(drawn) ? weights.behind[drawn] : 0;
      ++drawn;
    }
    TokenWeight above = 0;
    for (std::size_t i = 0; draw.top_p < 1.0f && i < logits.size(); ++i) {
      above += stands_before(i, drawn) ? weights.before[i] : 0;
    }
    if (above == 0 || above < wanted) {
      return static_cast<std::int32_t>(drawn);
    }
    bound = drawn;
  }
}

}  // namespace nibble::ops
