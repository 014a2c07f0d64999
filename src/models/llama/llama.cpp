#include "models/llama/llama.h"

#include "core/json.h"
#include "models/rope_config.h"

namespace nibble::models::llama {

std::vector<std::int64_t> read_windows(const ConfigReader& reader, std::int64_t layers,
                                       std::int64_t first) {
  const std::int64_t window = reader.size_or("sliding_window", 0, kMaxPositions);
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), 0);
  const auto types = reader.json().find("layer_types");
  if (types != reader.json().end() && !types->is_null()) {
    core::require(types->is_array() && types->size() == windows.size(),
                  core::ErrorKind::kInvalidModel, "config.json: 'layer_types' must list {} layers",
                  layers);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const bool sliding = (*types)[i] == "sliding_attention";
      core::require(
          sliding || (*types)[i] == "full_attention", core::ErrorKind::kInvalidModel,
          "config.json: layer type {} is not supported (full_attention, sliding_attention are)",
          core::printable_json((*types)[i]));
      core::require(!sliding || window > 0, core::ErrorKind::kInvalidModel,
                    "config.json: layer {} uses a sliding window but 'sliding_window' is missing",
                    i);
      windows[i] = sliding ? window : 0;
    }
    return windows;
  }
  for (std::int64_t i = first; i < layers; ++i) {
    windows[static_cast<std::size_t>(i)] = window;
  }
  return windows;
}

namespace {

NetworkConfig read_dense_config(const core::Json& json) {
  NetworkConfig config = read_attention_config(json);
  config.ffn = ConfigReader(json).size("intermediate_size", kMaxWidth);
  return config;
}

Architecture read_llama(const core::Json& json) {
  ConfigReader(json).only("sliding_window", nullptr);
  return read_dense_config(json);
}

Architecture read_mistral(const core::Json& json) {
  NetworkConfig config = read_dense_config(json);
  config.windows = read_windows(ConfigReader(json), config.layers, 0);
  return config;
}

Architecture read_qwen(const core::Json& json) {
  NetworkConfig config = read_dense_config(json);
  const ConfigReader reader(json);
  if (reader.flag("use_sliding_window", false)) {
    const std::int64_t first =
        core::find_integer(json, "max_window_layers", "config.json", 0, kMaxLayers)
            .value_or(config.layers);
    config.windows = read_windows(reader, config.layers, first);
  }
  return config;
}

// Biases: attention_bias and mlp_bias of Llama, those of queries, keys and values of Qwen2.
TensorNames names() {
  TensorNames names = attention_names();
  names.mlp = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};
  names.biases = Biases::kAsStored;
  return names;
}

}  // namespace

NetworkConfig read_attention_config(const core::Json& json) {
  const ConfigReader reader(json);
  NetworkConfig config;
  config.hidden = reader.size("hidden_size", kMaxWidth);
  config.layers = reader.size("num_hidden_layers", kMaxLayers);
  config.heads = reader.size("num_attention_heads", kMaxHeads);
  config.kv_heads = reader.size_or("num_key_value_heads", config.heads, kMaxHeads);
  const auto head_dim = reader.optional_size("head_dim", 1024);
  core::require(head_dim || config.hidden % config.heads == 0, core::ErrorKind::kInvalidModel,
                "config.json: hidden_size {} is not a multiple of num_attention_heads {}",
                config.hidden, config.heads);
  config.head_dim = head_dim.value_or(config.hidden / config.heads);
  config.vocabulary = reader.size("vocab_size", kMaxVocabulary);
  config.max_positions = reader.size_or("max_position_embeddings", 2048, kMaxPositions);
  config.norm_eps = reader.positive("rms_norm_eps", 1e-6);
  config.activation = reader.activation("hidden_act", "silu");
  config.tied_output = reader.flag("tie_word_embeddings", false);
  config.windows.assign(static_cast<std::size_t>(config.layers), 0);
  config.bos = reader.token_ids("bos_token_id", config.vocabulary);
  config.eos = reader.token_ids("eos_token_id", config.vocabulary);
  read_rope(json, config);
  return config;
}

TensorNames attention_names() {
  return {.roots = {"model."},
          .embedding = "embed_tokens",
          .final_norm = "norm",
          .block = "layers.{}",
          .attention_norm = "input_layernorm",
          .mlp_norm = "post_attention_layernorm",
          .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
          .attention_out = "self_attn.o_proj",
          .q_norm = "self_attn.q_norm",
          .k_norm = "self_attn.k_norm",
          .mlp = {},
          .harmless = {"rotary_emb.inv_freq", "rope_freqs.weight"}};
}

Family llama() {
  return {"llama", read_llama, names()};
}
Family mistral() {
  return {"mistral", read_mistral, names()};
}
Family qwen2() {
  return {"qwen2", read_qwen, names()};
}
Family qwen3() {
  return {"qwen3", read_qwen, names()};
}

}  // namespace nibble::models::llama
