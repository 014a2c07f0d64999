#include "ops/cuda/dense/dense_reference.h"

#include <algorithm>
#include <cmath>

#include "core/float16.h"

namespace nibble::ops::cuda {

DenseReference reference_dense(const DenseReferenceProblem& problem) {
  constexpr double kError = 8.0 / (1 << 23);
  DenseReference result;
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t n = 0; n < problem.n; ++n) {
      double sum = problem.bias.empty() ? 0.0 : problem.bias[static_cast<std::size_t>(n)];
      sum += problem.before.empty() ? 0.0
                                    : problem.before[static_cast<std::size_t>(i * problem.n + n)];
      double magnitude = 1.0 + std::fabs(sum);
      for (std::int64_t k = 0; k < problem.k; ++k) {
        const double term =
            static_cast<double>(problem.weight[static_cast<std::size_t>(n * problem.k + k)]) *
            problem.x[static_cast<std::size_t>(i * problem.k + k)];
        sum += term;
        magnitude += std::fabs(term);
      }
      result.y.push_back(sum);
      result.bounds.push_back(kError * magnitude);
    }
  }
  return result;
}

std::vector<float> rounded_to(core::DType type, std::span<const float> x) {
  std::vector<float> result(x.begin(), x.end());
  for (float& value : result) {
    if (type == core::DType::kBF16) {
      value = core::to_float(core::to_bf16(value));
    } else if (type == core::DType::kF16) {
      value = core::to_float(core::to_fp16(std::clamp(value, -core::kFp16Max, core::kFp16Max)));
    }
  }
  return result;
}

}  // namespace nibble::ops::cuda
