#include <vector>

#include "core/error.h"
#include "ops/cuda/attention/memory/memory_attention.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cuda_ops_input.h"
#include "ops/cuda/elementwise/input_target.h"

/// Attention of a decoder to what an encoder has read.
namespace nibble::ops::cuda {

using core::ErrorKind;

void CudaOps::copy_pages(std::span<const PageCopy> copies) {
  core::require(kv_ != nullptr, ErrorKind::kFailed, "the KV cache was not made");
  cuda::copy_pages(*kv_, copies, stream());
}

void CudaOps::swap_pages(std::span<const SwappedPage> pages, SwapDirection direction) {
  core::require(kv_ != nullptr, ErrorKind::kFailed, "the KV cache was not made");
  cuda::swap_pages(*kv_, pages, direction, stream());
}

void CudaOps::plan_memories(const Batch<KvSequence>& batch) {
  std::vector<MemoryRows> memories;
  for (const auto& slice : batch.slices) {
    if (slice.memory != nullptr) {
      memories.push_back({slice.memory->pages, slice.memory_rows, slice.row, slice.rows});
    }
  }
  memories_.planned = !memories.empty();
  memories_.splits = false;
  if (!memories_.planned) {
    return;
  }
  const bool of_encoder = texts_.count() > 0;
  const AttentionPlan plan =
      of_encoder ? plan_storing(memories, std::ssize(batch.tokens)) : plan_reading(memories);
  if (!memories_.plan) {
    memories_.plan.emplace(
        PlanBuffer::Limits{limits_.rows, kListedPages, limits_.items, limits_.items});
  }
  memories_.plan->put(plan, upload_);
  if (!of_encoder) {
    memories_.splits = plan.partials > 0;
    const KvPool* const pool = memories_.pool.get();
    note_kernels(*memories_.plan, memories_.splits, pool == nullptr ? 0 : pool->layout().kv_heads,
                 1);
  }
}

const KvPool& CudaOps::pool_of_memories(const AttentionSpec& spec) const {
  core::require(memories_.planned, ErrorKind::kFailed,
                "a slice without a memory has nothing to attend to");
  core::require(memories_.pool != nullptr, ErrorKind::kFailed, "memories have no pool");
  const KvLayout& layout = memories_.pool->layout();
  core::require(layout.kv_heads == spec.kv_heads && layout.head_dim == spec.head_dim,
                ErrorKind::kFailed, "memories of {} heads of {} elements serve none of {} of {}",
                layout.kv_heads, layout.head_dim, spec.kv_heads, spec.head_dim);
  return *memories_.pool;
}

void CudaOps::remember(const Matrix& kv, const AttentionSpec& spec, std::int64_t layer,
                       const Batch<KvSequence>& /*batch*/) {
  const KvPool& pool = pool_of_memories(spec);
  Matrix floats;
  if (kv.is_half()) {
    floats = copied(kv);
  }
  const Matrix& kept = kv.is_half() ? floats : kv;
  store_memory(pool.layout(), kept.data(), memories_.plan->plan(), kept.rows(), pool.layer(layer),
               stream());
}

CudaOps::Input CudaOps::attend(const Matrix& q, const AttentionSpec& spec, std::int64_t layer,
                               const Batch<KvSequence>& /*batch*/, const LinearSet& set) {
  const KvPool& pool = pool_of_memories(spec);
  const AttentionLayer view = memory_layer(pool.layout(), spec.heads);
  const std::byte* const pages = pool.layer(layer);
  return make_input(
      {set, q.rows()},
      [&](const InputTarget& target) {
        attend_to_memories(q, spec, view, pages, {nullptr, target});
      },
      [&] {
        Matrix heads = matrix(q.rows(), spec.heads * spec.head_dim);
        attend_to_memories(q, spec, view, pages, {heads.data(), {}});
        return heads;
      },
      [&](const InputKey& key) {
        return attention_writes(view, plain_target(key, nullptr, nullptr), true);
      });
}

void CudaOps::attend_to_memories(const Matrix& q, const AttentionSpec& spec,
                                 const AttentionLayer& layer, const std::byte* pages,
                                 const AttentionOutput& output) {
  const DevicePlan plan = plan_of_step(*memories_.plan, q.rows(), memories_.splits);
  const PooledBuffer halves(pool_, layer.layout.fragments() ? q.count() * 2 : 0);
  attend_to_memory(layer, q.data(), halves.as<core::Fp16>(), plan, q.rows(), pages,
                   partials_of(spec), output, stream());
}

}  // namespace nibble::ops::cuda
