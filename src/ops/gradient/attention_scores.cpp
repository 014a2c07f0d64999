#include "ops/gradient/attention_scores.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/dense/blas.h"

namespace nibble::ops::gradient {
namespace {

// What a query does not see becomes 0.
void hide(const Mask& mask, std::int64_t rows, float* scores) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto [begin, end] = visible_keys(mask, i, rows);
    std::fill(scores + i * rows, scores + i * rows + begin, 0.0f);
    std::fill(scores + i * rows + end, scores + (i + 1) * rows, 0.0f);
  }
}

// scores [rows, rows] of one head of one text.
void compute_head(const AttentionSpec& spec, const RowRange& range, std::int64_t head,
                  const cpu::Matrix& turned, float* scores) {
  const auto rows = static_cast<int>(range.rows);
  const auto dim = static_cast<int>(spec.head_dim);
  const auto stride = static_cast<int>(turned.columns());
  const std::int64_t key_head = spec.heads + head / (spec.heads / spec.kv_heads);
  const float* const first = turned.row(range.row);
  cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, rows, dim, spec.score_scale(),
                    first + head * spec.head_dim, stride, first + key_head * spec.head_dim, stride,
                    0.0f, scores, rows);
  for (std::int64_t i = 0; spec.softcap > 0.0f && i < range.rows * range.rows; ++i) {
    scores[i] = spec.softcap * std::tanh(scores[i] / spec.softcap);
  }
  hide(spec.mask, range.rows, scores);
}

}  // namespace

KeyRange visible_keys(const Mask& mask, std::int64_t row, std::int64_t keys) {
  if (mask.bidirectional) {
    return {0, keys};
  }
  return {mask.window == 0 ? 0 : std::max<std::int64_t>(0, row - mask.window + 1), row + 1};
}

std::vector<std::int64_t> first_scores_of(const AttentionSpec& spec,
                                          std::span<const RowRange> sequences) {
  std::vector<std::int64_t> firsts;
  std::int64_t next = 0;
  for (const RowRange& range : sequences) {
    firsts.push_back(next);
    next += spec.heads * range.rows * range.rows;
  }
  return firsts;
}

std::int64_t score_count(const AttentionSpec& spec, std::span<const RowRange> sequences) {
  return sequences.empty() ? 0
                           : first_scores_of(spec, sequences).back() +
                                 spec.heads * sequences.back().rows * sequences.back().rows;
}

void compute_scores(const AttentionSpec& spec, std::span<const RowRange> sequences,
                    const cpu::Matrix& turned, cpu::Matrix& scores, core::ThreadPool& pool) {
  const std::vector<std::int64_t> firsts = first_scores_of(spec, sequences);
  pool.parallel_for(std::ssize(sequences) * spec.heads, 1,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t task = begin; task < end; ++task) {
                        const auto text = static_cast<std::size_t>(task / spec.heads);
                        const std::int64_t head = task % spec.heads;
                        const RowRange& range = sequences[text];
                        compute_head(spec, range, head, turned,
                                     scores.data() + firsts[text] + head * range.rows * range.rows);
                      }
                    });
}

}  // namespace nibble::ops::gradient
