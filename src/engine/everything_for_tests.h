#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/fixed_sequences.h"
#include "engine/runner.h"

namespace nibble::engine {

/// Logits of logits, and of hidden states.
using Logits = std::vector<std::vector<float>>;

inline void append(Logits& all, const LogitsView& rows) {
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    all.emplace_back(rows.row(row).begin(), rows.row(row).end());
  }
}

/// All that a runner gives for some tokens: two prompts together, steps of single tokens (recorded
/// from the second on, on a GPU), hidden states, and texts that are scored.
inline Logits everything_of(Runner& runner) {
  const std::vector<std::int32_t> ids = {1, 17, 5, 40, 8, 22, 9, 31, 60, 3, 2, 63, 0};
  const std::span<const std::int32_t> all = ids;
  Logits values;
  FixedSequences sequences(runner, 2, 64);
  const std::vector<Slice> prompts = {sequences.next(0, all.first(9), 2),
                                      sequences.next(1, all.subspan(4, 2), 1)};
  append(values, runner.forward(prompts));
  for (std::size_t step = 8; step < 13; ++step) {
    const std::vector<Slice> slices = {sequences.next(0, all.subspan(step, 1)),
                                       sequences.next(1, all.subspan(step - 6, 1))};
    append(values, runner.forward(slices));
  }
  const std::vector<Slice> unseen = {sequences.next(1, all.first(3), 0)};  // no logits are wanted
  append(values, runner.forward(unseen));
  values.push_back(runner.hidden_sum(sequences.next(0, all.first(5))));
  const std::vector<ScoredText> texts = {{all, 0}, {all.first(4), 2}};
  runner.score_texts(texts, [&](std::int64_t, const LogitsView& rows) { append(values, rows); });
  return values;
}

}  // namespace nibble::engine
