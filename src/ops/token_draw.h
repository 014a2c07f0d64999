#pragma once

#include <cstdint>
#include <cstring>

#include "ops/ranked_token.h"
#include "ops/token_weight.h"

#ifdef __CUDACC__
#define NIBBLE_ON_BOTH __host__ __device__ __forceinline__
#else
#define NIBBLE_ON_BOTH inline
#endif

/// How a token is drawn from a row of logits, in the same bits on the host and on a GPU: weights
/// are integers, so that their sums have no order, and come from an exp() of our own.
namespace nibble::ops {

/// The most tokens that a GPU draws from where top_k bounds them.
inline constexpr int kMostDrawn = 64;

/// One draw. The tokens that it may give are the first top_k, of these the fewest whose
/// probabilities reach top_p (arXiv 1904.09751), of these the ones with at least min_p times the
/// largest; then the temperature applies.
struct TokenDraw {
  double uniform = 0;     // in [0, 1): what chance brings
  float temperature = 0;  // 0: the first token
  float top_p = 1;
  float min_p = 0;
  std::int32_t top_k = 0;  // 0: all
};

namespace draws {

NIBBLE_ON_BOTH double times(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;  // with -ffp-contract=off
#endif
}
NIBBLE_ON_BOTH double plus(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
NIBBLE_ON_BOTH std::int64_t to_integer(double x) {
  return static_cast<std::int64_t>(x);
}
NIBBLE_ON_BOTH TokenWeight floor_of(double x) {
  return static_cast<TokenWeight>(x);
}

#define NIBBLE_WEIGHT NIBBLE_ON_BOTH
#include "ops/token_weight.inc"
#undef NIBBLE_WEIGHT

}  // namespace draws

/// kFirstWeight e^x for x <= 0, to some 2^-44 of itself, rounded down: 0 below -31.
NIBBLE_ON_BOTH TokenWeight weight_of(double x) {
  if (!(x > -31.0)) {
    return 0;
  }
  return draws::weight_within(x);
}

/// Before the temperature, and behind it. `first` is the largest logit of the row.
NIBBLE_ON_BOTH TokenWeight weight_of(float logit, float first) {
  return weight_of(static_cast<double>(logit) - static_cast<double>(first));
}
NIBBLE_ON_BOTH TokenWeight weight_of(float logit, float first, float temperature) {
  return weight_of((static_cast<double>(logit) - static_cast<double>(first)) /
                   static_cast<double>(temperature));
}

/// `share` of a sum of weights, below it where share < 1; 0 of 0.
NIBBLE_ON_BOTH TokenWeight share_of(TokenWeight sum, double share) {
  const auto part = static_cast<TokenWeight>(draws::times(share, static_cast<double>(sum)));
  return part < sum || share >= 1.0 || sum == 0 ? part : sum - 1;
}

/// A draw from few tokens, the first ones of their row in their order: the place of the one that is
/// drawn, of `count` > 0, of which top_k was taken.
NIBBLE_ON_BOTH int draw_place(const TokenWeight* weights, const TokenWeight* tempered, int count,
                              const TokenDraw& draw) {
  TokenWeight total = 0;
  for (int i = 0; i < count; ++i) {
    total += weights[i];
  }
  const TokenWeight wanted = share_of(total, static_cast<double>(draw.top_p));
  const TokenWeight least = share_of(kFirstWeight, static_cast<double>(draw.min_p));
  TokenWeight reached = 0;
  TokenWeight sum = 0;
  int end = 0;
  while (end < count && weights[end] >= least && (end == 0 || reached < wanted)) {
    reached += weights[end];
    sum += tempered[end];
    ++end;
  }
  const TokenWeight drawn = share_of(sum, draw.uniform);
  TokenWeight passed = 0;
  for (int i = 0; i < end; ++i) {
    passed += tempered[i];
    if (drawn < passed) {
      return i;
    }
  }
  return 0;
}

/// What chance brings where a draw from a whole row is repeated (row_draw.h): splitmix64 of the
/// last one.
NIBBLE_ON_BOTH double next_uniform(double uniform) {
  std::uint64_t state = static_cast<std::uint64_t>(uniform * 9007199254740992.0) +  // 2^53
                        0x9e3779b97f4a7c15ull;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9ull;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebull;
  state ^= state >> 31;
  return static_cast<double>(state >> 11) / 9007199254740992.0;
}

}  // namespace nibble::ops

#undef NIBBLE_ON_BOTH
