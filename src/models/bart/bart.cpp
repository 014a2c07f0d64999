#include "models/bart/bart.h"

#include <cmath>

#include "core/json.h"
#include "models/config_reader.h"

namespace nibble::models::bart {
namespace {

std::int64_t heads_of(const ConfigReader& reader, std::string_view key, std::int64_t hidden) {
  const std::int64_t heads = reader.size(key, kMaxHeads);
  core::require(hidden % heads == 0, core::ErrorKind::kInvalidModel,
                "config.json: d_model {} is not a multiple of {} {}", hidden, key, heads);
  return heads;
}

Architecture read_config(const core::Json& json) {
  const ConfigReader reader(json);
  NetworkConfig config;
  config.hidden = reader.size("d_model", kMaxWidth);
  config.layers = reader.size("decoder_layers", kMaxLayers);
  config.heads = heads_of(reader, "decoder_attention_heads", config.hidden);
  config.kv_heads = config.heads;
  config.head_dim = config.hidden / config.heads;
  config.ffn = reader.size("decoder_ffn_dim", kMaxWidth);
  config.vocabulary = reader.size("vocab_size", kMaxVocabulary);
  config.max_positions = reader.size("max_position_embeddings", kMaxPositions);
  config.norm = ops::NormKind::kLayer;
  config.activation = reader.activation("activation_function", "gelu");
  config.gated = false;
  config.position_offset = 2;
  config.tied_output = true;
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  config.bos = reader.token_ids("bos_token_id", config.vocabulary);
  config.eos = reader.token_ids("eos_token_id", config.vocabulary);
  const auto start = reader.token_ids("decoder_start_token_id", config.vocabulary);
  core::require(start.size() == 1, core::ErrorKind::kInvalidModel,
                "config.json: 'decoder_start_token_id' must be one token id");
  config.decoder_start = start.front();
  reader.only("tie_word_embeddings", true);
  Architecture architecture(std::move(config));
  architecture.encoder = {reader.size("encoder_layers", kMaxLayers),
                          heads_of(reader, "encoder_attention_heads", architecture.config.hidden),
                          reader.size("encoder_ffn_dim", kMaxWidth)};
  if (reader.flag("scale_embedding", false)) {
    architecture.embedding_scale = std::sqrt(static_cast<float>(architecture.config.hidden));
  }
  return architecture;
}

Architecture read_bart(const core::Json& json) {
  Architecture architecture = read_config(json);
  architecture.norms = NormPlacement::kPost;
  architecture.final_norm = false;
  return architecture;
}

TensorNames names() {
  return {.roots = {"model."},
          .encoder = "encoder.",
          .decoder = "decoder.",
          .embedding = "shared",
          .positions = "embed_positions",
          .embedding_norm = "layernorm_embedding",
          .final_norm = "layer_norm",
          .block = "layers.{}",
          .attention_norm = "self_attn_layer_norm",
          .mlp_norm = "final_layer_norm",
          .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
          .attention_out = "self_attn.out_proj",
          .cross = {.norm = "encoder_attn_layer_norm",
                    .q = "encoder_attn.q_proj",
                    .k = "encoder_attn.k_proj",
                    .v = "encoder_attn.v_proj",
                    .out = "encoder_attn.out_proj"},
          .mlp = {.up = "fc1", .down = "fc2"},
          .output_bias = "final_logits_bias",
          .biases = Biases::kAll,
          .harmless = {"embed_tokens.weight"}};
}

}  // namespace

Family bart() {
  return {"bart", read_bart, names()};
}
Family mbart() {
  return {"mbart", read_config, names()};
}

}  // namespace nibble::models::bart
