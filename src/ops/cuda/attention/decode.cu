#include <cmath>

#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/decode_kernel.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/attention/plain.h"

namespace nibble::ops::cuda {
void attend_decode(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                   const DevicePlan& plan, float* partials, const AttentionOutput& output,
                   cudaStream_t stream) {
  check_layer(layer);
  const KvLayout& layout = layer.layout;
  if (!layout.fragments()) {
    return plain::attend_decode(layer, queries, pages, plan, output, stream);
  }
  constexpr float kLog2E = 1.44269504088896341f;
  const std::int64_t group = layer.heads / layout.kv_heads;
  const std::int64_t passes = (group + decode::kColumns - 1) / decode::kColumns;
  const decode::Arguments arguments{queries.halves,
                                    pages,
                                    plan,
                                    partials,
                                    head_sink(output, layer.heads * layout.head_dim),
                                    static_cast<int>(layer.heads),
                                    static_cast<int>(layout.kv_heads),
                                    kLog2E / std::sqrt(static_cast<float>(layout.head_dim)),
                                    layer.turned && layout.types.values == KvType::kInt4,
                                    false};
  const std::int64_t units = plan.max_items * layout.kv_heads * passes;
  with_fragments(
      layout, [&]<KvType K, KvType V, int D>() { decode::run<K, V, D>(arguments, units, stream); });
}

}  // namespace nibble::ops::cuda
