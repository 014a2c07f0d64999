#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "formats/packed_weight.h"
#include "ops/layer_kinds.h"

/// The layers that models are made of, as data. Operators of every device read them.
namespace nibble::ops {

/// What a low-rank adapter adds to a layer: y += scale (x A^T) B^T, x being the layer's input
/// before anything rounds, turns or reorders it (LoRA, arXiv 2106.09685, section 4.1).
struct LowRank {
  formats::PackedWeight a;  // dense, [r, k]
  formats::PackedWeight b;  // dense, [n, r]
  float scale = 1.0f;
  std::int64_t rank() const { return a.n; }
};

/// y[m, n] = x[m, k] W^T + bias. `name` is the layer's prefix in the checkpoint
/// ("model.layers.0.self_attn.q_proj").
struct Linear {
  std::string name;
  formats::PackedWeight weight;  // logical, [n, k]
  std::vector<float> bias;       // [n] or empty
  std::optional<LowRank> low_rank = std::nullopt;
};

/// Stored bytes of a layer's low-rank part.
inline std::int64_t low_rank_bytes(const Linear& layer) {
  return layer.low_rank
             ? formats::stored_bytes(layer.low_rank->a) + formats::stored_bytes(layer.low_rank->b)
             : 0;
}

/// Linear layers that read the same input and run as one call; their outputs stand side by side,
/// y[m, n_0 + n_1 + ...]: q|k|v, gate|up, or one layer alone. `id` is unique in a model: devices
/// keep their own layout of the weights under it.
struct LinearSet {
  int id = -1;
  std::vector<Linear> parts;
  bool pairs = false;  // two parts of as many rows, whose outputs meet one by one: gate|up

  std::int64_t n() const {
    std::int64_t sum = 0;
    for (const Linear& part : parts) {
      sum += part.weight.n;
    }
    return sum;
  }
  std::int64_t k() const { return parts.front().weight.k; }
};

/// RMSNorm (arXiv 1910.07467) or LayerNorm (arXiv 1607.06450) over the last dimension. `name` is
/// its prefix in the checkpoint.
struct Norm {
  std::string name;
  NormKind kind = NormKind::kRms;
  std::vector<float> weight;  // [hidden]
  std::vector<float> bias;    // [hidden], LayerNorm only
  float eps = 1e-5f;
  float stored_less = 0.0f;  // checkpoints hold weight - stored_less (Gemma: 1)
};

/// Which keys a query sees, by its position in its sequence.
struct Mask {
  bool bidirectional = false;  // all keys of the sequence; else those up to the query's position
  std::int64_t window = 0;     // of those before a position only the last `window`, its own among
                               // them; 0: all (Mistral, arXiv 2310.06825). Causal masks only.
};

/// Attention of one layer. Heads are grouped: query head h reads key/value head h / (heads /
/// kv_heads) (GQA, arXiv 2305.13245).
struct AttentionSpec {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  Mask mask;
  std::vector<float>
      inverse_frequency;      // RoPE, [head_dim / 2] radians per position; empty: no RoPE
  float rope_factor = 1.0f;   // scales cos and sin (YaRN's attention factor)
  std::vector<float> q_norm;  // RMSNorm over each head before RoPE, [head_dim] or empty (Qwen3)
  std::vector<float> k_norm;
  float norm_eps = 1e-6f;
  // Subtracted from every key behind RoPE, [kv_heads * head_dim] or empty: about the keys' mean,
  // so that what is left has a smaller range to round. It takes the same from all scores of a
  // query, which softmax does not see (SageAttention, arXiv 2410.02367, section 4.2).
  std::vector<float> key_centre;
  float scale = 0.0f;    // of scores q . k; 0: 1 / sqrt(head_dim)
  float softcap = 0.0f;  // c: scores become c tanh(score / c) before the mask (Gemma 2,
                         // arXiv 2408.00118, section 2); 0: they stay

  float score_scale() const {
    return scale > 0.0f ? scale : 1.0f / std::sqrt(static_cast<float>(head_dim));
  }
};

/// Mixture of experts: softmax over router logits, the `top` largest, renormalised to sum 1 when
/// `renormalize` (Mixtral, arXiv 2401.04088).
struct RoutingSpec {
  std::int64_t experts = 0;
  std::int64_t top = 0;
  bool renormalize = true;
};

}  // namespace nibble::ops
