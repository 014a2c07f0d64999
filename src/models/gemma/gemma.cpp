#include "models/gemma/gemma.h"

#include <cmath>

#include "core/float16.h"
#include "core/json.h"
#include "models/config_reader.h"
#include "models/llama/llama.h"
#include "models/rope_config.h"

namespace nibble::models::gemma {
namespace {

using core::ErrorKind;
using core::Json;

// What config.json may leave out in all of them.
Json common_defaults() {
  return {{"head_dim", 256},      {"rms_norm_eps", 1e-6},  {"tie_word_embeddings", true},
          {"bos_token_id", 2},    {"eos_token_id", 1},     {"max_position_embeddings", 8192},
          {"vocab_size", 256000}, {"sliding_window", 4096}};
}

// Older files call the tanh approximation "gelu", and have its name beside it or not.
std::string activation_of(const ConfigReader& reader) {
  const std::string name =
      reader.text("hidden_activation", reader.text("hidden_act", "gelu_pytorch_tanh"));
  return name == "gelu" ? "gelu_pytorch_tanh" : name;
}

// The root of the width, rounded to the type that the model was made in: it was trained so.
float embedding_scale(std::int64_t hidden, const ConfigReader& reader) {
  const float root = std::sqrt(static_cast<float>(hidden));
  const std::string type = reader.text("dtype", reader.text("torch_dtype", "float32"));
  return type == "bfloat16"  ? core::to_float(core::to_bf16(root))
         : type == "float16" ? core::to_float(core::to_fp16(root))
                             : root;
}

Architecture read_common(Json json) {
  json["hidden_act"] = activation_of(ConfigReader(json));
  const ConfigReader reader(json);
  reader.only("use_bidirectional_attention", false);
  NetworkConfig config = llama::read_attention_config(json);
  config.ffn = reader.size("intermediate_size", kMaxWidth);
  Architecture architecture(config);
  architecture.embedding_scale = embedding_scale(config.hidden, reader);
  architecture.norms_stored_less = 1.0f;
  return architecture;
}

float softcap(const ConfigReader& reader, std::string_view key) {
  const auto at = reader.json().find(key);
  return at == reader.json().end() || at->is_null() ? 0.0f : reader.positive(key, 0.0);
}

// Scores and windows. Where no layer_types are given each `period`-th layer sees all.
void read_attention(Json json, std::int64_t period, Architecture& architecture) {
  NetworkConfig& config = architecture.config;
  if (!json.contains("layer_types") || json.at("layer_types").is_null()) {
    json["layer_types"] = Json::array();
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      json["layer_types"].push_back((layer + 1) % period == 0 ? "full_attention"
                                                              : "sliding_attention");
    }
  }
  const ConfigReader reader(json);
  config.windows = llama::read_windows(reader, config.layers, 0);
  const float scalar = reader.positive("query_pre_attn_scalar", 256.0);
  if (scalar != static_cast<float>(config.head_dim)) {
    architecture.score_scale = 1.0f / std::sqrt(scalar);
  }
  architecture.score_softcap = softcap(reader, "attn_logit_softcapping");
  config.logit_softcap = softcap(reader, "final_logit_softcapping");
}

Architecture read_gemma(const Json& stored) {
  return read_common(with_defaults(stored, common_defaults()));
}

Architecture read_gemma2(const Json& stored) {
  Json defaults = common_defaults();
  defaults.update({{"attn_logit_softcapping", 50.0}, {"final_logit_softcapping", 30.0}});
  const Json json = with_defaults(stored, std::move(defaults));
  Architecture architecture = read_common(json);
  read_attention(json, 2, architecture);
  return architecture;
}

// The rotation of one kind of layers, as a file of one rotation would say it.
Json with_rotation(Json json, const char* kind, const Json& theta) {
  const auto parameters = json.find("rope_parameters");
  if (parameters != json.end() && parameters->is_object() && parameters->contains(kind)) {
    const Json own = parameters->at(kind);
    json["rope_parameters"] = own;
  }
  json["rope_theta"] = theta;
  return json;
}

Architecture read_gemma3_text(const Json& stored) {
  Json defaults = common_defaults();
  defaults.update({{"vocab_size", 262208},
                   {"hidden_size", 2304},
                   {"intermediate_size", 9216},
                   {"num_hidden_layers", 26},
                   {"num_attention_heads", 8},
                   {"num_key_value_heads", 4},
                   {"max_position_embeddings", 131072},
                   {"rope_theta", 1000000.0},
                   {"rope_local_base_freq", 10000.0},
                   {"sliding_window_pattern", 6}});
  const Json json = with_defaults(stored, std::move(defaults));
  Architecture architecture =
      read_common(with_rotation(json, "full_attention", json.at("rope_theta")));
  const ConfigReader reader(json);
  read_attention(json, reader.size("sliding_window_pattern", kMaxLayers), architecture);
  Json local = with_rotation(json, "sliding_attention", json.at("rope_local_base_freq"));
  local.erase("rope_scaling");  // of the other layers
  NetworkConfig rotated = architecture.config;
  rotated.rope_factor = 1.0f;
  read_rope(local, rotated);
  core::require(rotated.rope_factor == 1.0f && !rotated.long_rope, ErrorKind::kInvalidModel,
                "config.json: layers with a sliding window have a rotary scaling that is not "
                "supported there (default and linear are)");
  architecture.config.local_inverse_frequency = std::move(rotated.inverse_frequency);
  return architecture;
}

Architecture read_gemma3(const Json& stored) {
  const auto text = stored.find("text_config");
  core::require(text != stored.end() && text->is_object(), ErrorKind::kInvalidModel,
                "config.json: 'text_config' is missing, of which a model of type 'gemma3' is made");
  Json json = *text;
  for (const char* key : {"tie_word_embeddings", "eos_token_id", "bos_token_id"}) {
    if (stored.contains(key)) {
      json[key] = stored.at(key);
    }
  }
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (stored.contains(key) && !json.contains(key)) {
      json[key] = stored.at(key);
    }
  }
  return read_gemma3_text(json);
}

// Biases: attention_bias.
TensorNames names() {
  TensorNames names = llama::attention_names();
  names.mlp = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};
  names.biases = Biases::kAsStored;
  return names;
}

TensorNames names_with_four_norms() {
  TensorNames with = names();
  with.attention_out_norm = "post_attention_layernorm";
  with.mlp_norm = "pre_feedforward_layernorm";
  with.mlp_out_norm = "post_feedforward_layernorm";
  return with;
}

// Folders with images, as older and newer versions of transformers write them.
TensorNames names_beside_images() {
  TensorNames beside = names_with_four_norms();
  beside.roots = {"language_model.model.", "model.language_model."};
  beside.left_out = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                     "model.multi_modal_projector."};
  return beside;
}

}  // namespace

Family gemma() {
  return {"gemma", read_gemma, names()};
}
Family gemma2() {
  return {"gemma2", read_gemma2, names_with_four_norms()};
}
Family gemma3_text() {
  return {"gemma3_text", read_gemma3_text, names_with_four_norms()};
}
Family gemma3() {
  return {"gemma3", read_gemma3, names_beside_images()};
}

}  // namespace nibble::models::gemma
