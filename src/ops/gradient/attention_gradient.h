#pragma once

#include <cstdint>
#include <span>

#include "core/threads.h"
#include "ops/cpu/matrix.h"
#include "ops/layers.h"

namespace nibble::ops::gradient {

/// Rows [row, row + rows) of a batch: one sequence.
struct RowRange {
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

/// Rows of a text, and of the one that it attends to.
struct TextRows {
  RowRange own;
  RowRange read;
};

/// What the attention operator (ops.h) saw and made of sequences that attend among themselves.
struct AttentionRecord {
  const AttentionSpec& spec;
  std::span<const RowRange> sequences;
  std::span<const std::int32_t> positions;  // [m]
  const cpu::Matrix& qkv;                   // [m, (heads + 2 kv_heads) head_dim]
  const cpu::Matrix& turned;                // the same after QK norm and RoPE
  const cpu::Matrix& out;                   // [m, heads head_dim]
  const cpu::Matrix* dscores = nullptr;     // as attention_scores.h orders them: what the loss
                                            // asks of the scores themselves; null: nothing
};

/// dqkv += the gradient at qkv from that of the output. The probabilities are computed again, for
/// one head at a time: [rows, rows] floats for each thread.
void add_attention_gradient(const AttentionRecord& record, const cpu::Matrix& dout,
                            cpu::Matrix& dqkv, core::ThreadPool& pool);

/// What attention to other texts (ops.h, attend) saw and made. No two texts read the same rows.
struct MemoryRecord {
  const AttentionSpec& spec;
  std::span<const TextRows> texts;
  const cpu::Matrix& q;                  // [m, heads head_dim]
  const cpu::Matrix& kv;                 // [rows that are read, 2 kv_heads head_dim]
  const cpu::Matrix& out;                // [m, heads head_dim]
  const cpu::Matrix* dscores = nullptr;  // as AttentionRecord::dscores
};

/// dq and dkv += the gradients at q and kv from that of the output.
void add_memory_gradient(const MemoryRecord& record, const cpu::Matrix& dout, cpu::Matrix& dq,
                         cpu::Matrix& dkv, core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
