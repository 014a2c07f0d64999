#include "ops/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::ops {

float softmax_numerators(float* x, std::int64_t n) {
  const float largest = *std::max_element(x, x + n);
  float sum = 0.0f;
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - largest);
    sum += x[i];
  }
  return sum;
}

std::vector<ExpertRows> route(const float* logits, std::int64_t m, std::int64_t stride,
                              const RoutingSpec& spec, SoftmaxNumerators numerators) {
  std::vector<ExpertRows> routes(static_cast<std::size_t>(spec.experts));
  std::vector<float> shares(static_cast<std::size_t>(spec.experts));
  std::vector<std::int64_t> order(static_cast<std::size_t>(spec.experts));
  for (std::int64_t i = 0; i < m; ++i) {
    std::copy_n(logits + i * stride, spec.experts, shares.begin());
    const float total = numerators(shares.data(), spec.experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return shares[static_cast<std::size_t>(a)] > shares[static_cast<std::size_t>(b)];
    });
    float chosen = 0.0f;
    for (std::int64_t t = 0; t < spec.top; ++t) {
      chosen += shares[static_cast<std::size_t>(order[static_cast<std::size_t>(t)])];
    }
    for (std::int64_t t = 0; t < spec.top; ++t) {
      const auto expert = static_cast<std::size_t>(order[static_cast<std::size_t>(t)]);
      routes[expert].rows.push_back(static_cast<std::int32_t>(i));
      routes[expert].weights.push_back(shares[expert] / (spec.renormalize ? chosen : total));
    }
  }
  return routes;
}

}  // namespace nibble::ops
