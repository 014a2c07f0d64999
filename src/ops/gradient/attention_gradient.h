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

/// What the attention operator (ops.h) saw and made of sequences that attend among themselves.
struct AttentionRecord {
  const AttentionSpec& spec;
  std::span<const RowRange> sequences;
  std::span<const std::int32_t> positions;  // [m]
  const cpu::Matrix& qkv;                   // [m, (heads + 2 kv_heads) head_dim]
  const cpu::Matrix& turned;                // the same after QK norm and RoPE
  const cpu::Matrix& out;                   // [m, heads head_dim]
};

/// dqkv += the gradient at qkv from that of the output. The probabilities are computed again, for
/// one head at a time: [rows, rows] floats for each thread.
void add_attention_gradient(const AttentionRecord& record, const cpu::Matrix& dout,
                            cpu::Matrix& dqkv, core::ThreadPool& pool);

}  // namespace nibble::ops::gradient
