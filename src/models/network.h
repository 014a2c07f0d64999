#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ops/layers.h"

namespace nibble::models {

/// Where the norms of a block stand (arXiv 2002.04745).
enum class NormPlacement {
  kPre,   // before the layers: x += f(norm(x)); no norm touches the residual stream (GPT-2)
  kPost,  // in the residual stream: x = norm(x + f(x)) (the first Transformer, arXiv 1706.03762)
};

/// Sizes and constants of a transformer. Families differ in this data, not in code.
struct NetworkConfig {
  std::string family;  // "llama", "mistral", "qwen2", ... as model_type says
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;  // width of the MLP (of one expert)
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;
  ops::NormKind norm = ops::NormKind::kRms;
  float norm_eps = 1e-5f;
  NormPlacement norm_placement = NormPlacement::kPre;
  bool final_norm = true;  // there is a norm behind the last block
  ops::MlpActivation activation = ops::MlpActivation::kSilu;
  bool gated = true;                     // MLP is activation(gate) * up
  std::vector<float> inverse_frequency;  // RoPE after scaling; empty: learned positions
  float rope_factor = 1.0f;
  std::int64_t position_offset = 0;   // first row of the learned position table (OPT: 2)
  std::vector<std::int64_t> windows;  // sliding window of each layer, 0: none
  ops::RoutingSpec routing;           // experts = 0: dense MLP
  bool tied_output = false;
  std::vector<std::int32_t> bos;  // at most one
  std::vector<std::int32_t> eos;
};

struct Attention {
  ops::LinearSet qkv;  // q|k|v, or one fused layer
  ops::LinearSet out;
  ops::AttentionSpec spec;
};

struct Mlp {
  ops::LinearSet up;  // gate|up when gated, else the first layer alone
  ops::LinearSet down;
};

struct Block {
  ops::Norm attention_norm;  // before attention, or behind it (NormPlacement)
  Attention attention;
  ops::Norm mlp_norm;                    // the same of the MLP
  std::optional<Mlp> mlp;                // dense
  std::optional<ops::LinearSet> router;  // mixture of experts
  std::vector<Mlp> experts;
};

/// Prefix of an output layer that is not shared with the embedding, in checkpoints of all families.
inline constexpr const char* kOutputName = "lm_head";

/// Tables whose rows, added up, are the first values of the residual stream.
struct Embeddings {
  std::string tokens_name;  // of the tensors in the checkpoint
  std::string positions_name;
  core::Tensor tokens;     // [vocabulary, hidden]
  core::Tensor positions;  // learned positions, [rows, hidden] or empty
};

/// Blocks that one residual stream runs through, and the norm behind them where there is one.
struct Stack {
  std::vector<Block> blocks;
  std::optional<ops::Norm> final_norm;
};

/// A model with its weights (views of the mapped files wherever the layout allows).
struct Network {
  NetworkConfig config;
  Embeddings embeddings;
  Stack decoder;
  ops::LinearSet output;  // [vocabulary, hidden]; shares the embedding when tied
};

/// All sets of linear layers of a block, in the order in which they run.
std::vector<ops::LinearSet*> linear_sets(Block& block);
std::vector<const ops::LinearSet*> linear_sets(const Block& block);

}  // namespace nibble::models
