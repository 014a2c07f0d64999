#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cpu/attention/attention.h"

namespace nibble::ops::cpu {
namespace {

// Element d of a key or a value, as it is stored.
double element(const KvPages& pages, bool is_key, std::int64_t position, std::int64_t d) {
  const KvView view = pages.page(position / pages.page_tokens);
  const std::int64_t token = position % pages.page_tokens;
  const double stored = stored_element(view, is_key, token, d);
  return has_range(view.type) ? core::to_float(view.smallest[token]) +
                                    static_cast<double>(core::to_float(view.steps[token])) * stored
                              : stored;
}

}  // namespace

void attend_reference(const AttentionProblem& p) {
  const std::int64_t keys = p.memory_rows > 0 ? p.memory_rows : p.first_position + p.rows;
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const std::int64_t position = p.first_position + i;
    std::vector<std::int64_t> seen;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (p.mask.bidirectional ||
          (j <= position && (p.mask.window == 0 || j > position - p.mask.window))) {
        seen.push_back(j);
      }
    }
    for (std::int64_t h = 0; h < p.heads; ++h) {
      const float* q = p.q + i * p.ldq + h * p.head_dim;
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (const std::int64_t j : seen) {
        double sum = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
          sum += static_cast<double>(q[d]) * element(p.keys, true, j, d);
        }
        const double score = sum * p.scale;
        const double cap = p.softcap;
        weights.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
        largest = std::max(largest, weights.back());
      }
      double total = 0;
      for (double& weight : weights) {
        weight = std::exp(weight - largest);
        total += weight;
      }
      for (std::int64_t d = 0; d < p.head_dim; ++d) {
        double sum = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) {
          sum += weights[j] / total * element(p.values, false, seen[j], d);
        }
        p.out[i * p.ldo + h * p.head_dim + d] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace nibble::ops::cpu
