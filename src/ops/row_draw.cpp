#include "ops/row_draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::ops {
namespace {

TokenWeight sum_of(const std::vector<TokenWeight>& weights) {
  return std::accumulate(weights.begin(), weights.end(), TokenWeight{0});
}

}  // namespace

RankedToken draw_from_ranked(std::span<const RankedToken> ranked, const TokenDraw& draw,
                             RowWeights& weights) {
  const RankedToken& first = ranked.front();
  if (draw.temperature == 0.0f || first.id < 0) {
    return first;
  }
  weights.before.clear();
  weights.behind.clear();
  for (const RankedToken& token : ranked) {
    if (token.id < 0 || (draw.top_k > 0 && std::ssize(weights.before) == draw.top_k)) {
      break;
    }
    weights.before.push_back(weight_of(token.logit, first.logit));
    weights.behind.push_back(weight_of(token.logit, first.logit, draw.temperature));
  }
  return ranked[static_cast<std::size_t>(draw_place(weights.before.data(), weights.behind.data(),
                                                    static_cast<int>(weights.before.size()),
                                                    draw))];
}

void weigh_tokens(const float* logits, std::int64_t n, float first, float temperature,
                  TokenWeight* weights) {
  for (std::int64_t i = 0; i < n; ++i) {
    weights[i] = weight_of(logits[i], first, temperature);
  }
}

std::int32_t draw_from_row(std::span<const float> logits, const TokenDraw& draw,
                           RowWeights& weights, WeighTokens weigh) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const float first = *largest;
  if (!std::isfinite(first)) {
    return static_cast<std::int32_t>(largest - logits.begin());
  }
  weights.behind.resize(logits.size());
  weigh(logits.data(), std::ssize(logits), first, draw.temperature, weights.behind.data());
  if (draw.temperature == 1.0f) {
    weights.before = weights.behind;
  } else if (draw.top_p < 1.0f || draw.min_p > 0.0f) {  // else nobody asks
    weights.before.resize(logits.size());
    weigh(logits.data(), std::ssize(logits), first, 1.0f, weights.before.data());
  }
  const auto keep = [&](auto may_come) {  // others weigh nothing, so that they are not drawn
    for (std::size_t i = 0; i < logits.size(); ++i) {
      weights.behind[i] = may_come(i) ? weights.behind[i] : 0;
    }
  };
  if (draw.min_p > 0.0f) {
    const TokenWeight least = share_of(kFirstWeight, static_cast<double>(draw.min_p));
    keep([&](std::size_t i) { return weights.before[i] >= least; });
  }
  for (double uniform = draw.uniform;; uniform = next_uniform(uniform)) {
    TokenWeight left = share_of(sum_of(weights.behind), uniform);
    std::size_t drawn = 0;
    while (left >= weights.behind[drawn]) {
      left -= weights.behind[drawn++];
    }
    if (draw.top_p >= 1.0f) {
      return static_cast<std::int32_t>(drawn);
    }
    const auto stands_before_drawn = [&](std::size_t i) {
      return logits[i] > logits[drawn] || (logits[i] == logits[drawn] && i < drawn);
    };
    TokenWeight above = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      above += stands_before_drawn(i) ? weights.before[i] : 0;
    }
    if (above == 0 || above < share_of(sum_of(weights.before), static_cast<double>(draw.top_p))) {
      return static_cast<std::int32_t>(drawn);
    }
    keep(stands_before_drawn);
  }
}

}  // namespace nibble::ops
