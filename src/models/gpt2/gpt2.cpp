#include "models/gpt2/gpt2.h"

#include <fmt/format.h>

#include "models/config_reader.h"

namespace nibble::models::gpt2 {
namespace {

NetworkConfig read_config(const core::Json& json) {
  const ConfigReader reader(json);
  NetworkConfig config;
  config.hidden = reader.size("n_embd", kMaxWidth);
  config.layers = reader.size("n_layer", kMaxLayers);
  config.heads = reader.size("n_head", kMaxHeads);
  config.kv_heads = config.heads;
  core::require(config.hidden % config.heads == 0, core::ErrorKind::kInvalidModel,
                "config.json: n_embd {} is not a multiple of n_head {}", config.hidden,
                config.heads);
  config.head_dim = config.hidden / config.heads;
  config.ffn = reader.size_or("n_inner", 4 * config.hidden, kMaxWidth);
  config.vocabulary = reader.size("vocab_size", kMaxVocabulary);
  config.max_positions = reader.size("n_positions", kMaxPositions);
  config.norm = ops::NormKind::kLayer;
  config.norm_eps = reader.positive("layer_norm_epsilon", 1e-5);
  config.activation = reader.activation("activation_function", "gelu_new");
  config.gated = false;
  config.tied_output = reader.flag("tie_word_embeddings", true);
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  config.bos = reader.token_ids("bos_token_id", config.vocabulary);
  config.eos = reader.token_ids("eos_token_id", config.vocabulary);
  reader.only("scale_attn_weights", true);
  reader.only("scale_attn_by_inverse_layer_idx", false);
  reader.only("add_cross_attention", false);
  return config;
}

Block build_block(const NetworkConfig& config, const std::string& prefix, WeightLoader& loader) {
  Block block;
  block.attention_norm = loader.norm(prefix + ".ln_1", config.norm, config.hidden, config.norm_eps);
  block.mlp_norm = loader.norm(prefix + ".ln_2", config.norm, config.hidden, config.norm_eps);
  block.attention.qkv =
      loader.set({loader.conv1d(prefix + ".attn.c_attn", 3 * config.hidden, config.hidden)});
  block.attention.out =
      loader.set({loader.conv1d(prefix + ".attn.c_proj", config.hidden, config.hidden)});
  block.attention.spec.heads = config.heads;
  block.attention.spec.kv_heads = config.heads;
  block.attention.spec.head_dim = config.head_dim;
  block.attention.spec.key_centre = loader.key_centre(block.attention.qkv, config.hidden);
  Mlp mlp;
  mlp.up = loader.set({loader.conv1d(prefix + ".mlp.c_fc", config.ffn, config.hidden)});
  mlp.down = loader.set({loader.conv1d(prefix + ".mlp.c_proj", config.hidden, config.ffn)});
  block.mlp = std::move(mlp);
  return block;
}

// Checkpoints exist with and without the leading "transformer.".
Network build(const NetworkConfig& config, WeightLoader& loader) {
  const std::string root = loader.contains("transformer.wte.weight") ? "transformer." : "";
  Network model;
  model.config = config;
  model.embeddings.tokens_name = root + "wte.weight";
  model.embeddings.positions_name = root + "wpe.weight";
  model.embeddings.tokens =
      loader.matrix(model.embeddings.tokens_name, config.vocabulary, config.hidden);
  model.embeddings.positions =
      loader.matrix(model.embeddings.positions_name, config.max_positions, config.hidden);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    model.decoder.blocks.push_back(build_block(config, fmt::format("{}h.{}", root, i), loader));
  }
  model.decoder.final_norm =
      loader.norm(root + "ln_f", config.norm, config.hidden, config.norm_eps);
  std::vector<std::string_view> harmless = {".attn.bias", ".attn.masked_bias"};
  if (config.tied_output) {
    ops::Linear tied;
    tied.name = root + "wte";
    tied.weight = formats::dense_weight(model.embeddings.tokens);
    model.output = loader.set({std::move(tied)});
    harmless.push_back("lm_head.weight");
  } else {
    model.output =
        loader.set({loader.linear(kOutputName, config.vocabulary, config.hidden, false)});
  }
  loader.require_all_used(config.family, harmless);
  return model;
}

}  // namespace

Family gpt2() {
  return {"gpt2", read_config, build};
}

}  // namespace nibble::models::gpt2
