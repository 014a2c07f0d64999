#pragma once

#include <cstdint>
#include <vector>

#include "ops/kv_types.h"

namespace nibble::ops::cuda {

/// Queries of several texts, row-major, and what each of them attends to.
struct MemoryProblem {
  struct Text {
    std::int64_t tokens = 0;
    std::int64_t rows = 0;  // of the decoder
  };
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::vector<Text> texts;
  std::vector<float> q;   // [rows of all texts, heads head_dim]
  std::vector<float> kv;  // [tokens of all texts, 2 kv_heads head_dim]: keys, then values

  std::int64_t rows() const;
  std::int64_t tokens() const;
};

/// softmax(q k^T / sqrt(head_dim)) v of each row and head over all tokens of the row's text, in
/// double precision and plain loops: what attend_to_memory() must compute, [rows, heads head_dim].
/// `halves`: keys and values are rounded to float16 first, and queries too where `half_queries`.
std::vector<double> reference_memory_attention(const MemoryProblem& problem, bool halves,
                                               bool half_queries);

}  // namespace nibble::ops::cuda
