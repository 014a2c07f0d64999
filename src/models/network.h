#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "models/token_table.h"
#include "ops/layers.h"

namespace nibble::models {

/// Where the norms of a block stand (arXiv 2002.04745).
enum class NormPlacement {
  kPre,   // before the layers: x += f(norm(x)); no norm touches the residual stream (GPT-2)
  kPost,  // in the residual stream: x = norm(x + f(x)) (the first Transformer, arXiv 1706.03762)
};

/// How a model rotates where texts are longer than those it was first trained on (LongRoPE,
/// arXiv 2402.13753).
struct LongRope {
  std::int64_t positions = 0;  // the most
  std::vector<float> inverse_frequency;
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
  ops::MlpActivation activation = ops::MlpActivation::kSilu;
  bool gated = true;                           // MLP is activation(gate) * up
  std::vector<float> inverse_frequency;        // RoPE after scaling; empty: learned positions
  std::vector<float> local_inverse_frequency;  // of layers with a window, where theirs is another
  float rope_factor = 1.0f;
  std::optional<LongRope> long_rope;  // for texts longer than max_positions
  std::int64_t position_offset = 0;   // first row of the learned position table (OPT: 2)
  std::vector<std::int64_t> windows;  // sliding window of each layer, 0: none
  ops::RoutingSpec routing;           // experts = 0: dense MLP
  bool tied_output = false;
  float logit_softcap = 0.0f;  // c: logits become c tanh(logit / c) (Gemma 2); 0: they stay
  std::optional<std::int32_t> decoder_start;  // the first token of the decoder behind an encoder
  std::vector<std::int32_t> bos;              // at most one
  std::vector<std::int32_t> eos;
};

struct Attention {
  ops::LinearSet qkv;  // q|k|v, or one fused layer
  ops::LinearSet out;
  ops::AttentionSpec spec;
};

/// Attention to what an encoder has made of another text. The encoder's states do not change while
/// the decoder writes: their keys and values are computed once.
struct CrossAttention {
  ops::Norm norm;  // as Block::attention_norm
  ops::LinearSet q;
  ops::LinearSet kv;  // k|v, of the encoder's states
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
  std::optional<ops::Norm> attention_out_norm;  // of what attention adds to the residual stream, in
                                                // pre-norm blocks (Gemma 2)
  std::optional<CrossAttention> cross;          // of a decoder that has an encoder
  ops::Norm mlp_norm;                           // the same of the MLP
  std::optional<ops::Norm> mlp_out_norm;
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
  TokenTable tokens;       // [vocabulary, hidden], or narrower where `project_in` widens its rows
  core::Tensor positions;  // learned positions, [rows, hidden] or empty
  core::Tensor types;      // of token types, [types, hidden] or empty
  float scale = 1.0f;      // of the tokens' rows (mBART: the root of the width)
  std::optional<ops::LinearSet> project_in;  // of the tokens' rows, to the hidden width (OPT-350M)
  std::optional<ops::Norm> norm;             // of the sum
};

/// Blocks that one residual stream runs through, and the norm behind them where there is one.
struct Stack {
  NormPlacement norms = NormPlacement::kPre;
  std::vector<Block> blocks;  // none: the model has no such stack
  std::optional<ops::Norm> final_norm;
};

/// Layers behind an encoder: out(norm(activation(dense(x)))), or out(x) alone.
struct Head {
  std::optional<ops::LinearSet> dense;
  ops::MlpActivation activation = ops::MlpActivation::kTanh;
  std::optional<ops::Norm> norm;
  ops::LinearSet out;
};

/// What the outputs of a classifier mean.
enum class Problem {
  kRegression,   // numbers
  kSingleLabel,  // logits of labels, of which one is right
  kMultiLabel,   // logits of labels, each right or not
  kTokenLabels,  // logits of labels of each token; else the first token stands for the text
};

/// A head that labels texts or tokens.
struct Classifier {
  Head head;
  Problem problem = Problem::kSingleLabel;
  std::vector<std::string> labels;  // id2label of config.json, one for each output
};

/// How the states of a text's tokens become its embedding.
enum class PoolingMode { kFirst, kMean, kMax };
struct Pooling {
  PoolingMode mode = PoolingMode::kMean;
  bool normalize = false;  // to the length 1
};

/// A model with its weights (views of the mapped files wherever the layout allows).
struct Network {
  NetworkConfig config;
  Embeddings embeddings;
  std::optional<Embeddings> encoder_embeddings;  // where a decoder has those above
  Stack encoder;                                 // sees texts in both directions
  Stack decoder;                                 // continues texts
  std::optional<ops::LinearSet> project_out;  // of the decoder's states, to what the output reads
  ops::LinearSet output;  // of the decoder, [vocabulary, hidden]; shares the embedding when tied.
                          // No parts where there is no decoder
  std::optional<Head> masked_lm;  // of the encoder, as those below
  std::optional<Classifier> classifier;
  std::optional<Pooling> pooling;

  const Embeddings& embeddings_of_encoder() const {
    return encoder_embeddings ? *encoder_embeddings : embeddings;
  }
  bool has_encoder() const { return !encoder.blocks.empty(); }
  bool has_decoder() const { return !decoder.blocks.empty(); }
};

/// Makes the model ready for texts of up to `tokens` tokens: where these are more than
/// config.max_positions and the model has other frequencies for them, all blocks take these, for
/// shorter texts too. Else nothing happens.
void use_context(Network& network, std::int64_t tokens);

/// The blocks of all stacks, the encoder's first.
std::vector<const Block*> all_blocks(const Network& network);
std::vector<Block*> all_blocks(Network& network);

/// The sets of linear layers of a model that stand in no block: the decoder's output first.
std::vector<const ops::LinearSet*> end_sets(const Network& network);

/// Those of all blocks, and then these.
std::vector<const ops::LinearSet*> linear_sets(const Network& network);

/// Whether the matrix of a layer is the embedding itself.
bool shares_embedding(const Network& network, const ops::Linear& layer);

/// All sets of linear layers of a block, in the order in which they run.
std::vector<ops::LinearSet*> linear_sets(Block& block);
std::vector<const ops::LinearSet*> linear_sets(const Block& block);

}  // namespace nibble::models
