#include "models/llama/llama.h"

#include <fmt/format.h>

#include "models/config_reader.h"
#include "models/rope_config.h"

namespace nibble::models::llama {
namespace {

// The window of each layer: layer_types where it is given, else sliding_window for all layers from
// `first` on.
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

NetworkConfig read_dense_config(const core::Json& json) {
  NetworkConfig config = read_attention_config(json);
  config.ffn = ConfigReader(json).size("intermediate_size", kMaxWidth);
  return config;
}

NetworkConfig read_llama(const core::Json& json) {
  ConfigReader(json).only("sliding_window", nullptr);
  return read_dense_config(json);
}

NetworkConfig read_mistral(const core::Json& json) {
  NetworkConfig config = read_dense_config(json);
  config.windows = read_windows(ConfigReader(json), config.layers, 0);
  return config;
}

NetworkConfig read_qwen(const core::Json& json) {
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

Mlp build_mlp(const NetworkConfig& config, const std::string& prefix, bool bias,
              WeightLoader& loader) {
  Mlp mlp;
  mlp.up = loader.set({loader.linear(prefix + ".gate_proj", config.ffn, config.hidden, bias),
                       loader.linear(prefix + ".up_proj", config.ffn, config.hidden, bias)});
  mlp.up.pairs = true;
  mlp.down = loader.set({loader.linear(prefix + ".down_proj", config.hidden, config.ffn, bias)});
  return mlp;
}

// Biases are recognised by the tensors themselves: Llama's attention_bias and mlp_bias, Qwen2's
// query/key/value biases.
Network build(const NetworkConfig& config, WeightLoader& loader) {
  Network model = build_ends(config, loader);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string prefix = fmt::format("model.layers.{}", i);
    Block block = build_attention(config, i, loader.contains(prefix + ".self_attn.q_proj.bias"),
                                  loader.contains(prefix + ".self_attn.o_proj.bias"), loader);
    block.mlp =
        build_mlp(config, prefix + ".mlp", loader.contains(prefix + ".mlp.down_proj.bias"), loader);
    model.decoder.blocks.push_back(std::move(block));
  }
  finish(model, loader);
  return model;
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

Block build_attention(const NetworkConfig& config, std::int64_t layer, bool qkv_bias, bool out_bias,
                      WeightLoader& loader) {
  const std::string prefix = fmt::format("model.layers.{}", layer);
  const std::string attention = prefix + ".self_attn";
  const std::int64_t width = config.heads * config.head_dim;
  const std::int64_t kv_width = config.kv_heads * config.head_dim;
  Block block;
  block.attention_norm =
      loader.norm(prefix + ".input_layernorm", config.norm, config.hidden, config.norm_eps);
  block.mlp_norm = loader.norm(prefix + ".post_attention_layernorm", config.norm, config.hidden,
                               config.norm_eps);
  block.attention.qkv =
      loader.set({loader.linear(attention + ".q_proj", width, config.hidden, qkv_bias),
                  loader.linear(attention + ".k_proj", kv_width, config.hidden, qkv_bias),
                  loader.linear(attention + ".v_proj", kv_width, config.hidden, qkv_bias)});
  block.attention.out =
      loader.set({loader.linear(attention + ".o_proj", config.hidden, width, out_bias)});
  ops::AttentionSpec& spec = block.attention.spec;
  spec.heads = config.heads;
  spec.kv_heads = config.kv_heads;
  spec.head_dim = config.head_dim;
  spec.window = config.windows[static_cast<std::size_t>(layer)];
  spec.inverse_frequency = config.inverse_frequency;
  spec.rope_factor = config.rope_factor;
  spec.norm_eps = config.norm_eps;
  if (loader.contains(attention + ".q_norm.weight")) {
    spec.q_norm = loader.vector(attention + ".q_norm.weight", config.head_dim);
    spec.k_norm = loader.vector(attention + ".k_norm.weight", config.head_dim);
  }
  spec.key_centre = loader.key_centre(block.attention.qkv, kv_width);
  return block;
}

Network build_ends(const NetworkConfig& config, WeightLoader& loader) {
  Network model;
  model.config = config;
  model.embeddings.tokens_name = "model.embed_tokens.weight";
  model.embeddings.tokens =
      loader.matrix(model.embeddings.tokens_name, config.vocabulary, config.hidden);
  model.decoder.final_norm = loader.norm("model.norm", config.norm, config.hidden, config.norm_eps);
  return model;
}

void finish(Network& model, WeightLoader& loader) {
  if (model.config.tied_output) {
    ops::Linear tied;
    tied.name = "model.embed_tokens";
    tied.weight = formats::dense_weight(model.embeddings.tokens);
    model.output = loader.set({std::move(tied)});
  } else {
    model.output = loader.set(
        {loader.linear(kOutputName, model.config.vocabulary, model.config.hidden, false)});
  }
  std::vector<std::string_view> harmless = {"rotary_emb.inv_freq"};
  if (model.config.tied_output) {
    harmless.push_back("lm_head.weight");
  }
  loader.require_all_used(model.config.family, harmless);
}

Family llama() {
  return {"llama", read_llama, build};
}
Family mistral() {
  return {"mistral", read_mistral, build};
}
Family qwen2() {
  return {"qwen2", read_qwen, build};
}
Family qwen3() {
  return {"qwen3", read_qwen, build};
}

}  // namespace nibble::models::llama
