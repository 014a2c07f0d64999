#include "ops/cpu/elementwise.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

// The mean of `sum(x + at, count)`, whose few numbers are added in float32, and these sums in
// double: in float32 alone long rows lose a digit.
template <typename Sum>
float mean_of(std::int64_t n, const Sum& sum) {
  constexpr std::int64_t kPart = 256;
  double total = 0.0;
  for (std::int64_t at = 0; at < n; at += kPart) {
    total += sum(at, std::min(kPart, n - at));
  }
  return static_cast<float>(total / static_cast<double>(n));
}

void layer_norm_row(const Norm& norm, const float* x, float* y) {
  const auto n = static_cast<std::int64_t>(norm.weight.size());
  const VectorKernels& kernels = vector_kernels();
  const float mean =
      mean_of(n, [&](std::int64_t at, std::int64_t count) { return kernels.sum(x + at, count); });
  const float variance = mean_of(n, [&](std::int64_t at, std::int64_t count) {
    return kernels.sum_squares_about(x + at, mean, count);
  });
  const float* bias = norm.bias.empty() ? nullptr : norm.bias.data();
  kernels.normalize(x, mean, 1.0f / std::sqrt(variance + norm.eps), norm.weight.data(), bias, y, n);
}

}  // namespace

void norm_row(const Norm& norm, const float* x, float* y) {
  if (norm.kind == NormKind::kLayer) {
    return layer_norm_row(norm, x, y);
  }
  const auto n = static_cast<std::int64_t>(norm.weight.size());
  const VectorKernels& kernels = vector_kernels();
  const float mean = kernels.sum_squares(x, n) / static_cast<float>(n);
  kernels.multiply(x, norm.weight.data(), 1.0f / std::sqrt(mean + norm.eps), y, n);
}

void activate(MlpActivation activation, const float* x, float* y, std::int64_t n) {
  switch (activation) {
    case MlpActivation::kSilu:
      return vector_kernels().silu(x, y, n);
    case MlpActivation::kGeluTanh:
      return vector_kernels().gelu_tanh(x, y, n);
    case MlpActivation::kGelu:
      return vector_kernels().gelu(x, y, n);
    case MlpActivation::kRelu:
      std::transform(x, x + n, y, [](float v) { return v < 0.0f ? 0.0f : v; });
      return;
    case MlpActivation::kTanh:
      std::transform(x, x + n, y, [](float v) { return std::tanh(v); });
      return;
  }
}

void activate_gated(MlpActivation activation, const float* gate, const float* up, float* y,
                    std::int64_t n) {
  if (activation == MlpActivation::kSilu) {
    return vector_kernels().silu_multiply(gate, up, y, n);
  }
  activate(activation, gate, y, n);
  vector_kernels().multiply(y, up, 1.0f, y, n);
}

void add_bias(std::span<const Linear> parts, std::int64_t column, Matrix& y,
              core::ThreadPool& pool) {
  for (const Linear& part : parts) {
    if (!part.bias.empty()) {
      pool.parallel_for(y.rows(), 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          vector_kernels().add(y.row(i) + column, part.bias.data(), part.weight.n);
        }
      });
    }
    column += part.weight.n;
  }
}

}  // namespace nibble::ops::cpu
