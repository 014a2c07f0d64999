#include "models/qwen3_moe/qwen3_moe.h"

#include "core/json.h"
#include "models/config_reader.h"
#include "models/llama/llama.h"

namespace nibble::models::qwen3_moe {
namespace {

constexpr std::int64_t kMaxExperts = 1024;

// Layers of mlp_only_layers have no experts, and of the others only each decoder_sparse_step-th
// has.
std::vector<std::int64_t> read_dense_ffn(const ConfigReader& reader, std::int64_t layers) {
  const std::int64_t step = reader.size_or("decoder_sparse_step", 1, kMaxLayers);
  std::vector<bool> dense;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    dense.push_back((layer + 1) % step != 0);
  }
  const auto list = reader.json().find("mlp_only_layers");
  if (list != reader.json().end() && !list->is_null()) {
    core::require(list->is_array(), core::ErrorKind::kInvalidModel,
                  "config.json: 'mlp_only_layers' must be a list of layers");
    for (const core::Json& layer : *list) {
      core::require(layer.is_number_integer() && layer.get<std::int64_t>() >= 0 &&
                        layer.get<std::int64_t>() < layers,
                    core::ErrorKind::kInvalidModel,
                    "config.json: 'mlp_only_layers' holds {}, must be layers below {}",
                    core::printable_json(layer), layers);
      dense[layer.get<std::size_t>()] = true;
    }
  }
  std::vector<std::int64_t> widths;
  for (const bool is_dense : dense) {
    widths.push_back(is_dense ? reader.size("intermediate_size", kMaxWidth) : 0);
  }
  return widths;
}

Architecture read_config(const core::Json& json) {
  NetworkConfig config = llama::read_attention_config(json);
  const ConfigReader reader(json);
  config.ffn = reader.size("moe_intermediate_size", kMaxWidth);
  const char* const experts = json.contains("num_experts") ? "num_experts" : "num_local_experts";
  config.routing.experts = reader.size(experts, kMaxExperts);
  config.routing.top = reader.size("num_experts_per_tok", kMaxExperts);
  config.routing.renormalize = reader.flag("norm_topk_prob", false);
  if (reader.flag("use_sliding_window", false)) {
    config.windows = llama::read_windows(reader, config.layers, 0);
  }
  Architecture architecture(config);
  architecture.dense_ffn = read_dense_ffn(reader, config.layers);
  return architecture;
}

TensorNames names() {
  TensorNames names = llama::attention_names();
  names.router = "mlp.gate";
  names.expert = "mlp.experts.{}";
  names.mlp = {.gate = "gate_proj", .up = "up_proj", .down = "down_proj"};
  names.dense_mlp = {.gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};
  names.biases = Biases::kAsStored;
  return names;
}

}  // namespace

Family qwen3_moe() {
  return {"qwen3_moe", read_config, names()};
}

}  // namespace nibble::models::qwen3_moe
