#include "ops/cuda/attention/memory/memory_reference.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/float16.h"

namespace nibble::ops::cuda {
namespace {

using Numbers = std::vector<double>;

Numbers numbers(const std::vector<float>& values, std::int64_t at, std::int64_t count,
                bool halves) {
  Numbers result;
  for (std::int64_t i = at; i < at + count; ++i) {
    const float value = values[static_cast<std::size_t>(i)];
    result.push_back(halves ? core::to_float(core::to_fp16(value)) : value);
  }
  return result;
}

double product(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

Numbers attend(const Numbers& q, std::span<const Numbers> keys, std::span<const Numbers> values) {
  Numbers weights;
  for (const Numbers& key : keys) {
    weights.push_back(product(q, key) / std::sqrt(static_cast<double>(q.size())));
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) {
    weight = std::exp(weight - largest);
    total += weight;
  }
  Numbers out(q.size(), 0.0);
  for (std::size_t j = 0; j < values.size(); ++j) {
    for (std::size_t d = 0; d < out.size(); ++d) {
      out[d] += weights[j] / total * values[j][d];
    }
  }
  return out;
}

}  // namespace

std::int64_t MemoryProblem::rows() const {
  std::int64_t sum = 0;
  for (const Text& text : texts) {
    sum += text.rows;
  }
  return sum;
}

std::int64_t MemoryProblem::tokens() const {
  std::int64_t sum = 0;
  for (const Text& text : texts) {
    sum += text.tokens;
  }
  return sum;
}

std::vector<double> reference_memory_attention(const MemoryProblem& p, bool halves,
                                               bool half_queries) {
  std::vector<double> out;
  std::int64_t row = 0;
  std::int64_t token = 0;
  for (const MemoryProblem::Text& text : p.texts) {
    std::vector<std::vector<Numbers>> keys(static_cast<std::size_t>(p.kv_heads));
    std::vector<std::vector<Numbers>> values(keys.size());
    for (std::int64_t end = token + text.tokens; token < end; ++token) {
      for (std::size_t head = 0; head < keys.size(); ++head) {
        const std::int64_t key =
            (2 * token * p.kv_heads + static_cast<std::int64_t>(head)) * p.head_dim;
        keys[head].push_back(numbers(p.kv, key, p.head_dim, halves));
        values[head].push_back(numbers(p.kv, key + p.kv_heads * p.head_dim, p.head_dim, halves));
      }
    }
    for (std::int64_t end = row + text.rows; row < end; ++row) {
      for (std::int64_t head = 0; head < p.heads; ++head) {
        const auto from = static_cast<std::size_t>(head / (p.heads / p.kv_heads));
        const Numbers q =
            numbers(p.q, (row * p.heads + head) * p.head_dim, p.head_dim, half_queries);
        const Numbers made = attend(q, keys[from], values[from]);
        out.insert(out.end(), made.begin(), made.end());
      }
    }
  }
  return out;
}

}  // namespace nibble::ops::cuda
