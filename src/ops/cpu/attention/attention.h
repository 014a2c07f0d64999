#pragma once

#include <cstdint>

#include "core/threads.h"
#include "ops/cpu/attention/kv_cache.h"
#include "ops/cpu/matrix.h"
#include "ops/layers.h"
#include "ops/ops.h"

namespace nibble::ops::cpu {

struct AttentionTiles;

/// The tile registers in which attention of prompts is computed here (tiles/attention_tiles.h);
/// null: in none. Only where NIBBLE_ISA names an instruction set with them. Throws as
/// named_variant() (packed/variants.h).
const AttentionTiles* active_attention_tiles();

/// Whether these are not null and take keys and values of such types, so that a row of a prompt has
/// other bits than one behind it.
bool has_attention_of_prompts(KvTypes types);

/// Attention of all query heads that share one KV head.
///   scores(i, j) = scale q_i . k_j   for positions j that the mask lets p_i see:
///                  (p_i - window, p_i], or all in both directions; then cap tanh(. / cap), if any
///   out_i = softmax(scores(i, .)) V
struct AttentionProblem {
  const float* q = nullptr;  // query row i, head h at q + i * ldq + h * head_dim
  std::int64_t ldq = 0;
  float* out = nullptr;  // like q
  std::int64_t ldo = 0;
  std::int64_t rows = 0;   // query rows of the sequence
  std::int64_t heads = 0;  // query heads of the group
  std::int64_t head_dim = 0;
  float scale = 1.0f;
  float softcap = 0.0f;             // 0: none
  std::int64_t first_position = 0;  // position of query row 0; keys [0, first_position + rows)
  std::int64_t memory_rows = 0;     // keys of another text, [0, memory_rows), of which each query
                                    // sees all; 0: those above
  Mask mask;
  KvPages keys;
  KvPages values;
};

/// One query row after another, the heads of the group sharing each key and value: for decoding.
/// Every number of a row depends on nothing but its query and the keys and values that it sees.
void attend_rows(const AttentionProblem& problem);

/// The very numbers of attend_rows(), made for blocks of query rows that share what is read and
/// widened: for prefill.
void attend_blocks(const AttentionProblem& problem);

/// Double precision and plain loops.
void attend_reference(const AttentionProblem& problem);

/// The attention operator (ops.h): QK norm, RoPE and key centre in place on qkv, append to the
/// caches, attend. out [m, heads * head_dim]. Rows of prompts (SequenceSlice::prompt_rows) attend
/// in `tiles` where these take their keys and values and are not null.
void attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
               const Batch<KvCache>& batch, Matrix& out, core::ThreadPool& pool,
               const AttentionTiles* tiles = active_attention_tiles());

/// Keeps kv [m, 2 kv_heads head_dim] of the batch's rows in the memories of its slices, from
/// position 0 on.
void remember(const Matrix& kv, const AttentionSpec& spec, std::int64_t layer,
              const Batch<KvCache>& batch, core::ThreadPool& pool);

/// Queries q [m, heads head_dim] attend to all that the memories of their slices hold; out like q.
/// A memory is of types that turn nothing (kv_cache.h).
void attend_to_memory(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
                      const Batch<KvCache>& batch, Matrix& out, core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
