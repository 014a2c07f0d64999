#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/cpu/attention/attention.h"

/// Which keys the rows of a problem see: [first_key, end_of_keys) of its key_count.
namespace nibble::ops::cpu {

inline std::int64_t first_key(const AttentionProblem& p, std::int64_t position) {
  return p.mask.window > 0 ? std::max<std::int64_t>(0, position - p.mask.window + 1) : 0;
}

inline std::int64_t key_count(const AttentionProblem& p) {
  return p.memory_rows > 0 ? p.memory_rows : p.first_position + p.rows;
}

inline std::int64_t end_of_keys(const AttentionProblem& p, std::int64_t position) {
  return p.mask.bidirectional ? key_count(p) : position + 1;
}

}  // namespace nibble::ops::cpu
