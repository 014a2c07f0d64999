#pragma once

#include <cstdint>
#include <cstring>

#include "ops/ranked_token.h"

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

/// What a token weighs: kFirstWeight times its probability beside that of the first one, rounded
/// down. Sums of a row's weights fit 64 bits for vocabularies of up to 2^19 tokens.
using TokenWeight = std::uint64_t;
inline constexpr int kWeightBits = 44;
inline constexpr TokenWeight kFirstWeight = TokenWeight{1} << kWeightBits;

namespace draws {

// No compiler may fuse these.
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

}  // namespace draws

/// kFirstWeight e^x for x <= 0, to some 2^-44 of itself, rounded down.
NIBBLE_ON_BOTH TokenWeight weight_of(double x) {
  using draws::plus;
  using draws::times;
  if (!(x > -31.0)) {  // less than one
    return 0;
  }
  constexpr double kToInteger = 6755399441055744.0;  // 1.5 * 2^52: a sum with it has steps of 1
  const double n =
      plus(plus(times(x, 1.4426950408889634074), kToInteger), -kToInteger);  // log2(e) x, rounded
  const double high = plus(x, times(-n, 0x1.62e42feep-1));  // ln(2): its first 32 bits, exactly
  const double r = plus(high, times(-n, 0x1.a39ef35793c76p-33));  // and the rest
  constexpr double kOverFactorial[] = {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                                       1.0 / 720,     1.0 / 120,    1.0 / 24,    1.0 / 6,
                                       1.0 / 2,       1.0,          1.0};
  double sum = 1.0 / 39916800;  // 1 / 11!
  for (const double term : kOverFactorial) {
    sum = plus(times(sum, r), term);
  }
  const std::uint64_t bits =
      static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + kWeightBits + 1023) << 52;
  double scale = 0;
  memcpy(&scale, &bits, sizeof(scale));
  return static_cast<TokenWeight>(times(sum, scale));
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
