#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/gradient/attention_gradient.h"
#include "ops/layers.h"

/// The scores of attention among a text's own tokens, in one row: text after text, of each all
/// query heads, of each [rows, rows] with a row for each query. What a query does not see is 0.
namespace nibble::ops::gradient {

/// Keys [begin, end) that a query sees, by its row in the text.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
KeyRange visible_keys(const Mask& mask, std::int64_t row, std::int64_t keys);

/// Where each text's scores begin.
std::vector<std::int64_t> first_scores_of(const AttentionSpec& spec,
                                          std::span<const RowRange> sequences);

/// Of all texts together.
std::int64_t score_count(const AttentionSpec& spec, std::span<const RowRange> sequences);

/// scores [1, score_count] = cap(scale q . k) where a query sees a key, 0 elsewhere. `turned` is
/// AttentionRecord::turned.
void compute_scores(const AttentionSpec& spec, std::span<const RowRange> sequences,
                    const cpu::Matrix& turned, cpu::Matrix& scores, core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
