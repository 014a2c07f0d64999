#include "models/opt/opt.h"

#include "core/json.h"
#include "models/config_reader.h"

namespace nibble::models::opt {
namespace {

Architecture read_config(const core::Json& json) {
  const ConfigReader reader(json);
  NetworkConfig config;
  config.hidden = reader.size("hidden_size", kMaxWidth);
  config.layers = reader.size("num_hidden_layers", kMaxLayers);
  config.heads = reader.size("num_attention_heads", kMaxHeads);
  config.kv_heads = config.heads;
  core::require(config.hidden % config.heads == 0, core::ErrorKind::kInvalidModel,
                "config.json: hidden_size {} is not a multiple of num_attention_heads {}",
                config.hidden, config.heads);
  config.head_dim = config.hidden / config.heads;
  config.ffn = reader.size("ffn_dim", kMaxWidth);
  config.vocabulary = reader.size("vocab_size", kMaxVocabulary);
  config.max_positions = reader.size("max_position_embeddings", kMaxPositions);
  config.norm = ops::NormKind::kLayer;
  config.norm_eps = 1e-5f;
  config.activation = reader.activation("activation_function", "relu");
  config.gated = false;
  config.position_offset = 2;
  config.tied_output = reader.flag("tie_word_embeddings", true);
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  config.bos = reader.token_ids("bos_token_id", config.vocabulary);
  config.eos = reader.token_ids("eos_token_id", config.vocabulary);
  reader.only("enable_bias", true);
  reader.only("layer_norm_elementwise_affine", true);
  Architecture architecture(config);
  const bool pre = reader.flag("do_layer_norm_before", true);
  architecture.norms = pre ? NormPlacement::kPre : NormPlacement::kPost;
  architecture.final_norm = pre && !reader.flag("_remove_final_layer_norm", false);
  architecture.embedding_width = reader.size_or("word_embed_proj_dim", config.hidden, kMaxWidth);
  return architecture;
}

// Checkpoints exist with and without the leading "model.".
TensorNames names() {
  return {.roots = {"model.decoder.", "decoder."},
          .embedding = "embed_tokens",
          .positions = "embed_positions",
          .project_in = "project_in",
          .project_out = "project_out",
          .final_norm = "final_layer_norm",
          .block = "layers.{}",
          .attention_norm = "self_attn_layer_norm",
          .mlp_norm = "final_layer_norm",
          .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
          .attention_out = "self_attn.out_proj",
          .mlp = {.up = "fc1", .down = "fc2"},
          .biases = Biases::kAll};
}

}  // namespace

Family opt() {
  return {"opt", read_config, names()};
}

}  // namespace nibble::models::opt
