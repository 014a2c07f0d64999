#include "ops/gradient/attention_scores.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/dense/blas.h"

namespace nibble::ops::gradient {
namespace {

// What a query does not see becomes 0.
void hide(const Mask& mask, std::int64_t rows, std::int64_t keys, float* scores) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto [begin, end] = visible_keys(mask, i, keys);
    std::fill(scores + i * keys, scores + i * keys + begin, 0.0f);
    std::fill(scores + i * keys + end, scores + (i + 1) * keys, 0.0f);
  }
}

// scores [rows, keys] of one head of one text.
void compute_head(const AttentionSpec& spec, const TextRows& text, std::int64_t head,
                  const ScoredHeads& heads, float* scores) {
  const std::int64_t rows = text.own.rows;
  const std::int64_t keys = text.read.rows;
  const std::int64_t kv_head = head / (spec.heads / spec.kv_heads);
  cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows),
                    static_cast<int>(keys), static_cast<int>(spec.head_dim), spec.score_scale(),
                    heads.queries.row(text.own.row) + head * spec.head_dim,
                    static_cast<int>(heads.queries.columns()),
                    heads.keys.row(text.read.row) + heads.first_key + kv_head * spec.head_dim,
                    static_cast<int>(heads.keys.columns()), 0.0f, scores, static_cast<int>(keys));
  for (std::int64_t i = 0; spec.softcap > 0.0f && i < rows * keys; ++i) {
    scores[i] = spec.softcap * std::tanh(scores[i] / spec.softcap);
  }
  hide(spec.mask, rows, keys, scores);
}

}  // namespace

KeyRange visible_keys(const Mask& mask, std::int64_t row, std::int64_t keys) {
  if (mask.bidirectional) {
    return {0, keys};
  }
  return {mask.window == 0 ? 0 : std::max<std::int64_t>(0, row - mask.window + 1), row + 1};
}

std::vector<TextRows> reading_themselves(std::span<const RowRange> texts) {
  std::vector<TextRows> both;
  for (const RowRange& text : texts) {
    both.push_back({text, text});
  }
  return both;
}

std::vector<std::int64_t> first_scores_of(const AttentionSpec& spec,
                                          std::span<const TextRows> texts) {
  std::vector<std::int64_t> firsts = {0};
  for (const TextRows& text : texts) {
    firsts.push_back(firsts.back() + spec.heads * text.own.rows * text.read.rows);
  }
  return firsts;
}

void compute_scores(const AttentionSpec& spec, std::span<const TextRows> texts,
                    const ScoredHeads& heads, cpu::Matrix& scores, core::ThreadPool& pool) {
  const std::vector<std::int64_t> firsts = first_scores_of(spec, texts);
  pool.parallel_for(std::ssize(texts) * spec.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const auto at = static_cast<std::size_t>(task / spec.heads);
      const std::int64_t head = task % spec.heads;
      const TextRows& text = texts[at];
      compute_head(spec, text, head, heads,
                   scores.data() + firsts[at] + head * text.own.rows * text.read.rows);
    }
  });
}

}  // namespace nibble::ops::gradient
