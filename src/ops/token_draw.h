#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "ops/ranked_token.h"

#ifdef __CUDACC__
#define NIBBLE_ON_BOTH __host__ __device__ __forceinline__
#else
#define NIBBLE_ON_BOTH inline
#endif

/// How a token is drawn from the first ones of a row, in the same bits on the host and on a GPU:
/// no product is added but by fma(), so that no compiler chooses, and exp() is our own.
namespace nibble::ops {

/// The most tokens that a GPU draws from.
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

/// e^x for x <= 0, to about the last bit of a double; 0 below -700.
NIBBLE_ON_BOTH double exp_of_negative(double x) {
  if (!(x > -700.0)) {
    return 0.0;
  }
  const double n = rint(x * 1.4426950408889634074);  // of log2(e)
  double r = fma(-n, 0x1.62e42fee00000p-1, x);       // ln(2), its first 32 bits
  r = fma(-n, 0x1.a39ef35793c76p-33, r);             // and the rest
  double sum = 1.0 / 6227020800.0;                   // 1 / 13!
  constexpr double kOverFactorial[] = {1.0 / 479001600,
                                       1.0 / 39916800,
                                       1.0 / 3628800,
                                       1.0 / 362880,
                                       1.0 / 40320,
                                       1.0 / 5040,
                                       1.0 / 720,
                                       1.0 / 120,
                                       1.0 / 24,
                                       1.0 / 6,
                                       1.0 / 2,
                                       1.0,
                                       1.0};
  for (const double term : kOverFactorial) {
    sum = fma(sum, r, term);
  }
  const std::uint64_t bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52;
  double scale = 0;
  memcpy(&scale, &bits, sizeof(scale));
  return sum * scale;
}

/// What a token weighs beside the first one of its row, before the temperature.
NIBBLE_ON_BOTH double weight_beside_first(float logit, float first) {
  return exp_of_negative(static_cast<double>(logit) - static_cast<double>(first));
}

/// The same behind it.
NIBBLE_ON_BOTH double tempered_weight(float logit, float first, float temperature) {
  return exp_of_negative((static_cast<double>(logit) - static_cast<double>(first)) /
                         static_cast<double>(temperature));
}

/// The place of the token that is drawn from `count` > 0 ones with these weights, of which top_k
/// was taken.
NIBBLE_ON_BOTH int draw_place(const double* weights, const double* tempered, int count,
                              const TokenDraw& draw) {
  double total = 0;
  for (int i = 0; i < count; ++i) {
    total += weights[i];
  }
  const double wanted = static_cast<double>(draw.top_p) * total;
  double reached = 0;
  double sum = 0;
  int end = 0;
  while (end < count && weights[end] >= static_cast<double>(draw.min_p) &&
         (end == 0 || reached < wanted)) {
    reached += weights[end];
    sum += tempered[end];
    ++end;
  }
  const double drawn = draw.uniform * sum;
  double passed = 0;
  for (int i = 0; i < end; ++i) {
    passed += tempered[i];
    if (drawn < passed) {
      return i;
    }
  }
  return end == 0 ? 0 : end - 1;
}

}  // namespace nibble::ops

#undef NIBBLE_ON_BOTH
