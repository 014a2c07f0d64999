#include "ops/cuda/attention/checks.h"

#include <cstdint>

#include "core/error.h"

namespace nibble::ops::cuda {

void check_layer(const AttentionLayer& layer) {
  const KvLayout& layout = layer.layout;
  core::require(layout.head_dim > 0 && layout.head_dim <= kMaxHeadDim, core::ErrorKind::kUsage,
                "heads of {} elements can't be handled on the GPU: 1 to {} are", layout.head_dim,
                kMaxHeadDim);
  core::require(layout.kv_heads > 0 && layer.heads % layout.kv_heads == 0, core::ErrorKind::kUsage,
                "{} query heads can't share {} KV heads", layer.heads, layout.kv_heads);
  core::require(layer.rotary % 2 == 0 && layer.rotary <= layout.head_dim, core::ErrorKind::kUsage,
                "RoPE can't turn {} elements of heads of {}", layer.rotary, layout.head_dim);
}

bool can_read_heads(const AttentionLayer& layer, const float* qkv) {
  std::uintptr_t all = 0;
  for (const float* values : {qkv, layer.q_norm, layer.k_norm, layer.key_centre}) {
    all |= reinterpret_cast<std::uintptr_t>(values);
  }
  return all % (4 * sizeof(float)) == 0;
}

}  // namespace nibble::ops::cuda
