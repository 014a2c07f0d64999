#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/layer_kinds.h"

namespace nibble::models {

/// Which linear layers of a family's blocks have biases.
enum class Biases {
  kNone,
  kAll,
  kAsStored,  // the sets of layers of which the checkpoint has one
};

/// The layers of an MLP.
struct MlpNames {
  std::string_view gate = {};  // empty: the MLP is not gated, or `up` makes gate|up
  std::string_view up;
  std::string_view down;
};

/// The layers of a head (Head in network.h). In these names {} is the root of the model.
struct HeadNames {
  std::string_view dense = {};                                  // empty: there is none
  std::optional<ops::MlpActivation> activation = std::nullopt;  // none: that of the MLPs
  std::string_view norm = {};                                   // empty: there is none
  std::string_view out;
  std::string_view out_bias = {};  // empty: beside the matrix of `out`
};

/// The heads of an encoder.
struct EncoderHeads {
  HeadNames texts;   // labels texts
  HeadNames tokens;  // labels tokens
  HeadNames masked_lm;
};

/// Attention of a decoder to its encoder.
struct CrossNames {
  std::string_view norm;
  std::string_view q;
  std::string_view k;
  std::string_view v;
  std::string_view out;
};

/// What a family calls its tensors. Each name is a prefix that ".weight" and, where there is one,
/// ".bias" follow. Ends of the model stand below the root; layers and norms of a block below the
/// root and `block`; those of an expert below `expert` too.
struct TensorNames {
  std::vector<std::string_view> roots;  // the first below which the checkpoint has the embedding
  std::string_view encoder = {};  // what stands between the root and all names but that of the
  std::string_view decoder = {};  // embedding, in models that have both stacks
  std::string_view embedding;
  std::string_view positions = {};       // learned; empty: the family has none
  std::string_view token_types = {};     // the same
  std::string_view embedding_norm = {};  // of the sum of the tables; empty: there is none
  std::string_view project_in = {};      // where the embedding is narrower than the model
  std::string_view project_out = {};
  std::string_view final_norm = {};

  std::string_view block;  // "layers.{}": {} is the number of the block
  std::string_view attention_norm;
  std::string_view attention_out_norm = {};  // of what attention and MLP add to the residual
  std::string_view mlp_norm;                 // stream; empty: there is none
  std::string_view mlp_out_norm = {};
  std::vector<std::string_view> qkv;  // query, key, value, or one layer that makes all three
  std::string_view attention_out;
  CrossNames cross = {};         // of the decoder behind an encoder
  std::string_view q_norm = {};  // RMSNorm of each head, where the checkpoint has it
  std::string_view k_norm = {};
  MlpNames mlp;                  // of each expert, where there are experts
  MlpNames dense_mlp = {};       // of layers without experts, in models that have both
  std::string_view router = {};  // with experts
  std::string_view expert = {};  // "experts.{}": {} is the number of the expert
  EncoderHeads heads = {};       // of an encoder

  std::string_view output_bias = {};  // [1, vocabulary], below no root; empty: there is none
  Biases biases = Biases::kNone;
  bool conv1d = false;                          // matrices of blocks may be stored [in, out]
  std::vector<std::string_view> harmless = {};  // parts of names of tensors that nothing reads
  std::vector<std::string_view> left_out = {};  // what names begin with of parts of the model that
                                                // are not built; the user is told
};

}  // namespace nibble::models
