#include "models/opt/opt.h"

#include <fmt/format.h>

#include "models/config_reader.h"

namespace nibble::models::opt {
namespace {

NetworkConfig read_config(const core::Json& json) {
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
  reader.only("do_layer_norm_before", true);
  reader.only("enable_bias", true);
  reader.only("layer_norm_elementwise_affine", true);
  reader.only("_remove_final_layer_norm", false);
  reader.only("word_embed_proj_dim", config.hidden);
  return config;
}

Block build_block(const NetworkConfig& config, const std::string& prefix, WeightLoader& loader) {
  const std::string attention = prefix + ".self_attn";
  const std::int64_t hidden = config.hidden;
  Block block;
  block.attention_norm =
      loader.norm(prefix + ".self_attn_layer_norm", config.norm, hidden, config.norm_eps);
  block.mlp_norm = loader.norm(prefix + ".final_layer_norm", config.norm, hidden, config.norm_eps);
  block.attention.qkv = loader.set({loader.linear(attention + ".q_proj", hidden, hidden, true),
                                    loader.linear(attention + ".k_proj", hidden, hidden, true),
                                    loader.linear(attention + ".v_proj", hidden, hidden, true)});
  block.attention.out = loader.set({loader.linear(attention + ".out_proj", hidden, hidden, true)});
  block.attention.spec.heads = config.heads;
  block.attention.spec.kv_heads = config.heads;
  block.attention.spec.head_dim = config.head_dim;
  block.attention.spec.key_centre = loader.key_centre(block.attention.qkv, config.hidden);
  Mlp mlp;
  mlp.up = loader.set({loader.linear(prefix + ".fc1", config.ffn, hidden, true)});
  mlp.down = loader.set({loader.linear(prefix + ".fc2", hidden, config.ffn, true)});
  block.mlp = std::move(mlp);
  return block;
}

// Checkpoints exist with and without the leading "model.".
Network build(const NetworkConfig& config, WeightLoader& loader) {
  const std::string root =
      loader.contains("model.decoder.embed_tokens.weight") ? "model.decoder." : "decoder.";
  Network model;
  model.config = config;
  model.embeddings.tokens_name = root + "embed_tokens.weight";
  model.embeddings.positions_name = root + "embed_positions.weight";
  model.embeddings.tokens =
      loader.matrix(model.embeddings.tokens_name, config.vocabulary, config.hidden);
  model.embeddings.positions =
      loader.matrix(model.embeddings.positions_name, config.max_positions + config.position_offset,
                    config.hidden);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    model.decoder.blocks.push_back(
        build_block(config, fmt::format("{}layers.{}", root, i), loader));
  }
  model.decoder.final_norm =
      loader.norm(root + "final_layer_norm", config.norm, config.hidden, config.norm_eps);
  if (config.tied_output) {
    ops::Linear tied;
    tied.name = root + "embed_tokens";
    tied.weight = formats::dense_weight(model.embeddings.tokens);
    model.output = loader.set({std::move(tied)});
    loader.require_all_used(config.family, {"lm_head.weight"});
  } else {
    model.output =
        loader.set({loader.linear(kOutputName, config.vocabulary, config.hidden, false)});
    loader.require_all_used(config.family, {});
  }
  return model;
}

}  // namespace

Family opt() {
  return {"opt", read_config, build};
}

}  // namespace nibble::models::opt
