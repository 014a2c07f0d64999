#include "ops/cuda/attention/packed/packed_reference.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace nibble::ops::cuda {
namespace {

constexpr double kHalfUnit = 1.0 / (1 << 11);        // of float16, relative
constexpr double kHalfOfSmallest = 1.0 / (1 << 25);  // of float16
constexpr double kErrorOfSums = 1.0 / (1 << 20);     // of float32, of all magnitudes together

using Numbers = std::vector<double>;

Numbers head_of(const PackedProblem& problem, std::int64_t row, std::int64_t column) {
  Numbers values;
  for (std::int64_t i = 0; i < problem.shape.head_dim; ++i) {
    values.push_back(
        core::to_float(problem.qkv[static_cast<std::size_t>(row * problem.stride + column + i)]));
  }
  return values;
}

// A text's keys or values of one head.
std::vector<Numbers> heads_of(const PackedProblem& problem, std::int64_t first, std::int64_t end,
                              std::int64_t column) {
  std::vector<Numbers> rows;
  for (std::int64_t row = first; row < end; ++row) {
    rows.push_back(head_of(problem, row, column));
  }
  return rows;
}

// To integers of [-127, 127] times a scale, in float32 as the kernel does it.
void round(Numbers& values) {
  float largest = 0.0f;
  for (const double value : values) {
    largest = std::fmax(largest, std::fabs(static_cast<float>(value)));
  }
  const float inverse = largest == 0.0f ? 0.0f : 127.0f / largest;
  for (double& value : values) {
    const float code = std::nearbyint(static_cast<float>(value) * inverse);
    value = static_cast<double>(code) * static_cast<double>(largest / 127.0f);
  }
}

// Weights that sum to 1, and how far they may be off, relative.
struct Weights {
  Numbers share;
  double error = 0.0;
  double total = 0.0;  // of weights relative to the largest
};

Weights weights_of(const Numbers& q, const std::vector<Numbers>& keys, double scale) {
  Weights weights;
  double magnitude = 0.0;
  for (const Numbers& key : keys) {
    double score = 0.0;
    double sizes = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      score += q[i] * key[i];
      sizes += std::fabs(q[i] * key[i]);
    }
    weights.share.push_back(score * scale);
    magnitude = std::max(magnitude, sizes * scale);
  }
  const double largest = *std::max_element(weights.share.begin(), weights.share.end());
  for (double& weight : weights.share) {
    weight = std::exp(weight - largest);
    weights.total += weight;
  }
  for (double& weight : weights.share) {
    weight /= weights.total;
  }
  weights.error = 2.0 * std::expm1(2.0 * (magnitude + 1.0) * kErrorOfSums);
  return weights;
}

void attend(const Weights& weights, const std::vector<Numbers>& values, std::span<double> y,
            std::span<double> bounds) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    double sum = 0.0;
    double sizes = 0.0;  // of the terms
    double all = 0.0;    // of the values
    for (std::size_t j = 0; j < values.size(); ++j) {
      sum += weights.share[j] * values[j][i];
      sizes += weights.share[j] * std::fabs(values[j][i]);
      all += std::fabs(values[j][i]);
    }
    y[i] = sum;
    bounds[i] = sizes * (kHalfUnit + weights.error) + std::fabs(sum) * kHalfUnit +
                all / weights.total * kHalfOfSmallest + kHalfOfSmallest;
  }
}

PackedReference reference(const PackedProblem& problem, bool rounds) {
  const PackedAttention& shape = problem.shape;
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  PackedReference result;
  result.y.resize(static_cast<std::size_t>(problem.rows * shape.heads) * dim);
  result.bounds.resize(result.y.size());
  for (std::size_t text = 0; text < problem.firsts.size(); ++text) {
    const std::int64_t first = problem.firsts[text];
    const std::int64_t end =
        text + 1 < problem.firsts.size() ? problem.firsts[text + 1] : problem.rows;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
      const std::int64_t key_column = (shape.heads + kv_head) * shape.head_dim;
      auto keys = heads_of(problem, first, end, key_column);
      if (rounds) {
        std::for_each(keys.begin(), keys.end(), round);
      }
      const auto values =
          heads_of(problem, first, end, key_column + shape.kv_heads * shape.head_dim);
      for (std::int64_t row = first; row < end; ++row) {
        Numbers q = head_of(problem, row, head * shape.head_dim);
        if (rounds) {
          round(q);
        }
        const Weights weights = weights_of(q, keys, shape.scale);
        const auto at = static_cast<std::size_t>(row * shape.heads + head) * dim;
        attend(weights, values, std::span(result.y).subspan(at, dim),
               std::span(result.bounds).subspan(at, dim));
      }
    }
  }
  return result;
}

}  // namespace

PackedReference reference_packed_attention(const PackedProblem& problem) {
  return reference(problem, false);
}

PackedReference reference_packed_attention_int8(const PackedProblem& problem) {
  return reference(problem, true);
}

}  // namespace nibble::ops::cuda
