#include "models/phi3/phi3.h"

#include "core/json.h"
#include "models/config_reader.h"
#include "models/llama/llama.h"

namespace nibble::models::phi3 {
namespace {

// The first files call LongRoPE "yarn", whose lists of factors tell it apart.
core::Json with_long_rope(core::Json json) {
  const auto scaling = json.find("rope_scaling");
  if (scaling != json.end() && scaling->is_object() && scaling->contains("short_factor")) {
    scaling->erase("type");
    (*scaling)["rope_type"] = "longrope";
  }
  return json;
}

Architecture read_config(const core::Json& stored) {
  const core::Json json =
      with_defaults(with_long_rope(stored), {{"rms_norm_eps", 1e-5}, {"bos_token_id", 1}});
  NetworkConfig config = llama::read_attention_config(json);
  const ConfigReader reader(json);
  config.ffn = reader.size("intermediate_size", kMaxWidth);
  config.windows = llama::read_windows(reader, config.layers, 0);
  reader.only("attention_bias", false);
  reader.only("mlp_bias", false);
  reader.only("lm_head_bias", false);
  return config;
}

TensorNames names() {
  TensorNames names = llama::attention_names();
  names.qkv = {"self_attn.qkv_proj"};
  names.mlp = {.up = "mlp.gate_up_proj", .down = "mlp.down_proj"};
  return names;
}

}  // namespace

Family phi3() {
  return {"phi3", read_config, names()};
}

}  // namespace nibble::models::phi3
