#include "models/gpt2/gpt2.h"

#include "core/json.h"
#include "models/config_reader.h"

namespace nibble::models::gpt2 {
namespace {

Architecture read_config(const core::Json& json) {
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

// Checkpoints exist with and without the leading "transformer.".
TensorNames names() {
  return {.roots = {"transformer.", ""},
          .embedding = "wte",
          .positions = "wpe",
          .final_norm = "ln_f",
          .block = "h.{}",
          .attention_norm = "ln_1",
          .mlp_norm = "ln_2",
          .qkv = {"attn.c_attn"},
          .attention_out = "attn.c_proj",
          .mlp = {.up = "mlp.c_fc", .down = "mlp.c_proj"},
          .biases = Biases::kAll,
          .conv1d = true,
          .harmless = {".attn.bias", ".attn.masked_bias"}};
}

}  // namespace

Family gpt2() {
  return {"gpt2", read_config, names()};
}

}  // namespace nibble::models::gpt2
