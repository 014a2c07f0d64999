#include <optional>

#include "core/json.h"
#include "models/config_reader.h"
#include "models/gguf/gguf_source.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;

// Reads keys of the file's architecture, "llama.block_count".
class Keys {
 public:
  Keys(const io::GgufMetadata& metadata, const std::string& architecture)
      : metadata_(metadata), prefix_(architecture + ".") {}

  void size(Json& config, const char* name, const char* key, std::int64_t max,
            bool required = true) const {
    if (const auto value = metadata_.find_integer(prefix_ + key, 0, max); value && *value > 0) {
      config[name] = *value;
      return;
    }
    core::require(!required, ErrorKind::kInvalidModel, "GGUF: the key '{}{}' is missing or zero",
                  prefix_, key);
  }

  void number(Json& config, const char* name, const char* key) const {
    if (const auto value = metadata_.find_number(prefix_ + key)) {
      config[name] = *value;
    }
  }

  const std::string* text(const char* key) const { return metadata_.find_string(prefix_ + key); }
  std::optional<double> number(const char* key) const {
    return metadata_.find_number(prefix_ + key);
  }

 private:
  const io::GgufMetadata& metadata_;
  std::string prefix_;
};

void read_rope_scaling(const Keys& keys, Json& config) {
  const std::string* type = keys.text("rope.scaling.type");
  if (type == nullptr || *type == "none") {
    return;
  }
  core::require(*type == "linear" || *type == "yarn", ErrorKind::kInvalidModel,
                "GGUF: rotary scaling '{}' is not supported (none, linear, yarn are)",
                core::printable(*type));
  Json scaling = {{"rope_type", *type}};
  if (const auto factor = keys.number("rope.scaling.factor")) {
    scaling["factor"] = *factor;
  }
  if (const auto context = keys.number("rope.scaling.original_context_length")) {
    scaling["original_max_position_embeddings"] = *context;
  }
  config["rope_scaling"] = std::move(scaling);
}

Json llama_config(const Keys& keys, const std::string& model_type) {
  Json config = {{"model_type", model_type}};
  keys.size(config, "hidden_size", "embedding_length", kMaxWidth);
  keys.size(config, "num_hidden_layers", "block_count", kMaxLayers);
  keys.size(config, "num_attention_heads", "attention.head_count", kMaxHeads);
  keys.size(config, "num_key_value_heads", "attention.head_count_kv", kMaxHeads, false);
  keys.size(config, "intermediate_size", "feed_forward_length", kMaxWidth);
  keys.size(config, "max_position_embeddings", "context_length", kMaxPositions);
  keys.size(config, "head_dim", "attention.key_length", 1024, false);
  keys.number(config, "rms_norm_eps", "attention.layer_norm_rms_epsilon");
  keys.number(config, "rope_theta", "rope.freq_base");
  read_rope_scaling(keys, config);
  Json experts;
  keys.size(experts, "count", "expert_count", kMaxHeads, false);
  if (!experts.is_null()) {
    config["model_type"] = "mixtral";
    config["num_local_experts"] = experts["count"];
    keys.size(config, "num_experts_per_tok", "expert_used_count", kMaxHeads);
    keys.size(config, "sliding_window", "attention.sliding_window", kMaxPositions, false);
  }
  return config;
}

Json gpt2_config(const Keys& keys) {
  Json config = {{"model_type", "gpt2"}, {"activation_function", "gelu_new"}};
  keys.size(config, "n_embd", "embedding_length", kMaxWidth);
  keys.size(config, "n_layer", "block_count", kMaxLayers);
  keys.size(config, "n_head", "attention.head_count", kMaxHeads);
  keys.size(config, "n_inner", "feed_forward_length", kMaxWidth, false);
  keys.size(config, "n_positions", "context_length", kMaxPositions);
  keys.number(config, "layer_norm_epsilon", "attention.layer_norm_epsilon");
  return config;
}

}  // namespace

Json gguf_config(const io::GgufFile& file, StoredLayers stored) {
  const io::GgufMetadata& metadata = file.metadata();
  const std::string& architecture = metadata.get_string("general.architecture");
  const Keys keys(metadata, architecture);
  Json config;
  if (architecture == "llama" || architecture == "qwen2" || architecture == "qwen3") {
    config = llama_config(keys, architecture);
  } else {
    core::require(architecture == "gpt2", ErrorKind::kInvalidModel,
                  "GGUF: architecture '{}' is not supported (llama, qwen2, qwen3, gpt2 are)",
                  core::printable(architecture));
    config = gpt2_config(keys);
  }
  config["tie_word_embeddings"] = !has_output_layer(file, stored);
  const core::Shape& embedding = file.entry("token_embd.weight").shape;
  core::require(embedding.size() == 2, ErrorKind::kInvalidModel,
                "GGUF: 'token_embd.weight' must have two dimensions");
  config["vocab_size"] = embedding[0];
  for (const char* name : {"bos", "eos"}) {
    if (const auto id = metadata.find_integer(fmt::format("tokenizer.ggml.{}_token_id", name), 0,
                                              embedding[0] - 1)) {
      config[fmt::format("{}_token_id", name)] = *id;
    }
  }
  return config;
}

}  // namespace nibble::models
