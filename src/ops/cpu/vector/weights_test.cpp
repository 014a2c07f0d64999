#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "core/random_values_for_tests.h"
#include "ops/cpu/vector/vector_kernels.h"
#include "ops/row_draw.h"

namespace nibble::ops::cpu {
namespace {

TEST(VectorKernels, TokenWeightsAreThoseOfTheReference) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const VectorKernels* kernels : runnable_vector_kernels()) {
    SCOPED_TRACE(kernels->isa);
    for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 100'003}) {
      std::vector<float> logits = core::normal_values(n, static_cast<std::uint64_t>(n));
      for (std::size_t i = 0; i < logits.size(); ++i) {
        logits[i] = i % 50 == 7 ? -kInfinity : -9.0f * std::fabs(logits[i]);
      }
      logits.front() = 2.5f;
      for (const float temperature : {1.0f, 0.3f, 1.7f}) {
        std::vector<TokenWeight> expected(logits.size());
        weigh_tokens(logits.data(), n, 2.5f, temperature, expected.data());
        std::vector<TokenWeight> weights(logits.size() + 1, 77);
        kernels->token_weights(logits.data(), n, 2.5f, temperature, weights.data());
        EXPECT_EQ(weights.back(), 77u) << "written behind the end";
        weights.pop_back();
        EXPECT_EQ(weights, expected);
      }
    }
  }
}

}  // namespace
}  // namespace nibble::ops::cpu
