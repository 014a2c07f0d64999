#include <cmath>

#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/attention/plain.h"
#include "ops/cuda/attention/prefill_kernel.cuh"
#include "ops/cuda/attention/prefill_warpgroups.cuh"

namespace nibble::ops::cuda {
void attend_prefill(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                    const DevicePlan& plan, const AttentionOutput& output, cudaStream_t stream) {
  check_layer(layer);
  const KvLayout& layout = layer.layout;
  if (!layout.fragments()) {
    return plain::attend_prefill(layer, queries, pages, plan, output, stream);
  }
  constexpr float kLog2E = 1.44269504088896341f;
  const prefill::Arguments arguments{queries.halves,
                                     pages,
                                     plan,
                                     head_sink(output, layer.heads * layout.head_dim),
                                     static_cast<int>(layer.heads),
                                     static_cast<int>(layout.kv_heads),
                                     static_cast<int>(layout.head_dim),
                                     kLog2E / std::sqrt(static_cast<float>(layout.head_dim)),
                                     layer.turned && layout.types.values == KvType::kInt4};
  const std::int64_t units = plan.max_items * layout.kv_heads;
  with_fragments(layout, [&]<KvType K, KvType V, int D>() {
    if constexpr (K == KvType::kF16 && V == KvType::kF16) {
      if (prefill::has_warpgroups<D>()) {
        return prefill::run_warpgroups<D>(arguments, units, stream);
      }
    }
    prefill::run<K, V, D>(arguments, units, stream);
  });
}

}  // namespace nibble::ops::cuda
