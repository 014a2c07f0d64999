#include "ops/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/attention/rope.h"
#include "ops/cpu/attention/seen_keys.h"
#include "ops/cpu/attention/tiles/tiled_attention.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kBlockRows = 8;  // from here on blocks are faster than rows
// Rows of a prompt that a thread takes at once: for each such piece the keys are widened anew.
constexpr std::int64_t kPieceRows = 64;
constexpr std::int64_t kPiecesPerWorker = 3;  // pieces differ in the keys that they see

void norm_head(float* head, const std::vector<float>& weight, float eps) {
  const auto dim = static_cast<std::int64_t>(weight.size());
  const VectorKernels& kernels = vector_kernels();
  const float mean = kernels.sum_squares(head, dim) / static_cast<float>(dim);
  kernels.multiply(head, weight.data(), 1.0f / std::sqrt(mean + eps), head, dim);
}

// QK norm and RoPE of one row's query and key heads, and the centre of the keys.
void prepare_row(float* row, const AttentionSpec& spec, std::int64_t position) {
  thread_local Rotation rotation;
  if (!spec.inverse_frequency.empty()) {
    rotation.set(spec.inverse_frequency, position, spec.rope_factor);
  }
  for (std::int64_t h = 0; h < spec.heads + spec.kv_heads; ++h) {
    float* head = row + h * spec.head_dim;
    const std::vector<float>& norm = h < spec.heads ? spec.q_norm : spec.k_norm;
    if (!norm.empty()) {
      norm_head(head, norm, spec.norm_eps);
    }
    if (!spec.inverse_frequency.empty()) {
      rotate(head, rotation);
    }
  }
  float* keys = row + spec.heads * spec.head_dim;
  for (std::size_t i = 0; i < spec.key_centre.size(); ++i) {
    keys[i] -= spec.key_centre[i];
  }
}

// The part of the batch that one task computes: one KV head of one sequence.
AttentionProblem problem_of(const Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
                            const SequenceSlice<KvCache>& slice, std::int64_t kv_head,
                            Matrix& out) {
  const std::int64_t group = spec.heads / spec.kv_heads;
  const std::int64_t dim = spec.head_dim;
  AttentionProblem p;
  p.q = qkv.row(slice.row) + kv_head * group * dim;
  p.ldq = qkv.columns();
  p.out = out.row(slice.row) + kv_head * group * dim;
  p.ldo = out.columns();
  p.rows = slice.rows;
  p.heads = group;
  p.head_dim = dim;
  p.scale = spec.score_scale();
  p.softcap = spec.softcap;
  p.mask = spec.mask;
  if (slice.cache != nullptr) {
    p.first_position = slice.position;
    p.keys = slice.cache->keys(layer, kv_head);
    p.values = slice.cache->values(layer, kv_head);
  } else {
    const float* keys = qkv.row(slice.row) + (spec.heads + kv_head) * dim;
    p.keys = one_page(keys, qkv.columns());
    p.values = one_page(keys + spec.kv_heads * dim, qkv.columns());
  }
  return p;
}

void append(const Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
            const SequenceSlice<KvCache>& slice, std::int64_t kv_head) {
  for (std::int64_t i = 0; i < slice.rows; ++i) {
    const float* key = qkv.row(slice.row + i) + (spec.heads + kv_head) * spec.head_dim;
    slice.cache->store(layer, kv_head, slice.position + i, key,
                       key + spec.kv_heads * spec.head_dim);
  }
}

// The query heads that share a KV head, as its keys are turned.
void turn_queries(const formats::Hadamard& turn, const AttentionSpec& spec,
                  const SequenceSlice<KvCache>& slice, std::int64_t kv_head, Matrix& qkv) {
  const std::int64_t width = spec.heads / spec.kv_heads * spec.head_dim;
  for (std::int64_t i = 0; i < slice.rows; ++i) {
    turn.apply(
        std::span(qkv.row(slice.row + i) + kv_head * width, static_cast<std::size_t>(width)));
  }
}

void turn_back(const formats::Hadamard& turn, const AttentionProblem& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    turn.apply_transposed(
        std::span(p.out + i * p.ldo, static_cast<std::size_t>(p.heads * p.head_dim)));
  }
}

// Rows [begin, end) of a problem.
AttentionProblem rows_of(AttentionProblem p, std::int64_t begin, std::int64_t end) {
  p.memory_rows = p.mask.bidirectional ? key_count(p) : p.memory_rows;
  p.q += begin * p.ldq;
  p.out += begin * p.ldo;
  p.first_position += begin;
  p.rows = end - begin;
  return p;
}

// Pieces in which the rows of each slice are dealt out, where heads and slices are fewer than
// threads.
std::int64_t pieces_of(const AttentionSpec& spec, const Batch<KvCache>& batch, int workers) {
  std::int64_t rows = 0;
  for (const SequenceSlice<KvCache>& slice : batch.slices) {
    rows = std::max(rows, slice.rows);
  }
  const auto tasks = static_cast<std::int64_t>(batch.slices.size()) * spec.kv_heads;
  if (spec.mask.bidirectional || tasks == 0) {
    return 1;
  }
  return std::clamp<std::int64_t>(kPiecesPerWorker * workers / tasks, 1,
                                  std::max<std::int64_t>(1, rows / kPieceRows));
}

}  // namespace

void attention(Matrix& qkv, const AttentionSpec& spec, std::int64_t layer,
               const Batch<KvCache>& batch, Matrix& out, core::ThreadPool& pool,
               const AttentionTiles* tiles) {
  pool.parallel_for(qkv.rows(), 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      prepare_row(qkv.row(i), spec, batch.positions[static_cast<std::size_t>(i)]);
    }
  });
  const auto slice_of = [&](std::int64_t task) -> const SequenceSlice<KvCache>& {
    return batch.slices[static_cast<std::size_t>(task / spec.kv_heads)];
  };
  const auto store = [&](std::int64_t task) {
    const SequenceSlice<KvCache>& slice = slice_of(task);
    const std::int64_t kv_head = task % spec.kv_heads;
    if (slice.cache != nullptr) {
      append(qkv, spec, layer, slice, kv_head);
      if (slice.cache->key_turn() != nullptr) {
        turn_queries(*slice.cache->key_turn(), spec, slice, kv_head, qkv);
      }
    }
  };
  const auto attend = [&](std::int64_t task, std::int64_t piece, std::int64_t pieces) {
    const SequenceSlice<KvCache>& slice = slice_of(task);
    const std::int64_t begin = slice.rows * piece / pieces;
    const std::int64_t end = slice.rows * (piece + 1) / pieces;
    if (begin == end) {
      return;
    }
    const AttentionProblem whole = problem_of(qkv, spec, layer, slice, task % spec.kv_heads, out);
    const AttentionProblem problem = rows_of(whole, begin, end);
    const bool in_tiles =
        tiles != nullptr && has_attention_tiles(whole.keys.type, whole.values.type);
    const std::int64_t tiled = in_tiles ? std::clamp(slice.prompt_rows, begin, end) : begin;
    if (tiled > begin) {
      attend_in_tiles(*tiles, rows_of(problem, 0, tiled - begin));
    }
    if (tiled < end) {
      (slice.rows < kBlockRows ? attend_rows
                               : attend_blocks)(rows_of(problem, tiled - begin, end - begin));
    }
    if (slice.cache != nullptr && slice.cache->value_turn() != nullptr) {
      turn_back(*slice.cache->value_turn(), problem);
    }
  };
  const std::int64_t tasks = static_cast<std::int64_t>(batch.slices.size()) * spec.kv_heads;
  const std::int64_t pieces = pieces_of(spec, batch, pool.size());
  if (pieces == 1) {
    pool.parallel_for(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        store(task);
        attend(task, 0, 1);
      }
    });
    return;
  }
  pool.parallel_for(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      store(task);
    }
  });
  // The last pieces see the most keys, and come first.
  pool.parallel_for(tasks * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      attend(i % tasks, pieces - 1 - i / tasks, pieces);
    }
  });
}

}  // namespace nibble::ops::cpu
