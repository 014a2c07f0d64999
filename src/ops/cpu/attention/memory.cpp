#include "core/error.h"
#include "ops/cpu/attention/attention.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kBlockRows = 8;  // from here on blocks are faster than rows

// One KV head of one text.
AttentionProblem problem_of(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
                            const SequenceSlice<KvCache>& slice, std::int64_t kv_head,
                            Matrix& out) {
  const std::int64_t group = spec.heads / spec.kv_heads;
  AttentionProblem p;
  p.q = q.row(slice.row) + kv_head * group * spec.head_dim;
  p.ldq = q.columns();
  p.out = out.row(slice.row) + kv_head * group * spec.head_dim;
  p.ldo = out.columns();
  p.rows = slice.rows;
  p.heads = group;
  p.head_dim = spec.head_dim;
  p.scale = spec.score_scale();
  p.softcap = spec.softcap;
  p.memory_rows = slice.memory_rows;
  p.mask.bidirectional = true;
  p.keys = slice.memory->keys(layer, kv_head);
  p.values = slice.memory->values(layer, kv_head);
  return p;
}

// body(slice, KV head) for all of a batch.
template <typename Body>
void for_each_head(const Batch<KvCache>& batch, const AttentionSpec& spec, core::ThreadPool& pool,
                   Body body) {
  pool.parallel_for(
      std::ssize(batch.slices) * spec.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          const auto& slice = batch.slices[static_cast<std::size_t>(task / spec.kv_heads)];
          core::require(slice.memory != nullptr, core::ErrorKind::kFailed,
                        "a slice without a memory has nothing to attend to");
          body(slice, task % spec.kv_heads);
        }
      });
}

}  // namespace

void remember(const Matrix& kv, const AttentionSpec& spec, std::int64_t layer,
              const Batch<KvCache>& batch, core::ThreadPool& pool) {
  for_each_head(batch, spec, pool, [&](const SequenceSlice<KvCache>& slice, std::int64_t head) {
    for (std::int64_t i = 0; i < slice.rows; ++i) {
      const float* key = kv.row(slice.row + i) + head * spec.head_dim;
      slice.memory->store(layer, head, i, key, key + spec.kv_heads * spec.head_dim);
    }
  });
}

void attend_to_memory(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
                      const Batch<KvCache>& batch, Matrix& out, core::ThreadPool& pool) {
  for_each_head(batch, spec, pool, [&](const SequenceSlice<KvCache>& slice, std::int64_t head) {
    const AttentionProblem problem = problem_of(q, spec, layer, slice, head, out);
    (slice.rows < kBlockRows ? attend_rows : attend_blocks)(problem);
  });
}

}  // namespace nibble::ops::cpu
