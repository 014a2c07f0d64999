#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/gradient/attention_gradient.h"
#include "ops/layers.h"

/// The scores of attention, in one row: text after text, of each all query heads, of each
/// [rows of the text, rows that it reads] with a row for each query. What a query does not see
/// is 0.
namespace nibble::ops::gradient {

/// Keys [begin, end) that a query sees, by its row in the text.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
KeyRange visible_keys(const Mask& mask, std::int64_t row, std::int64_t keys);

/// Texts that attend among themselves.
std::vector<TextRows> reading_themselves(std::span<const RowRange> texts);

/// Where each text's scores begin, and behind the last one how many all have together.
std::vector<std::int64_t> first_scores_of(const AttentionSpec& spec,
                                          std::span<const TextRows> texts);

/// Queries and keys as they are multiplied: heads side by side, from a column on.
struct ScoredHeads {
  const cpu::Matrix& queries;  // the first head at column 0
  const cpu::Matrix& keys;
  std::int64_t first_key = 0;  // column of the first KV head
};

/// scores [1, first_scores_of().back()] = cap(scale q . k) where a query sees a key, 0 elsewhere.
void compute_scores(const AttentionSpec& spec, std::span<const TextRows> texts,
                    const ScoredHeads& heads, cpu::Matrix& scores, core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
