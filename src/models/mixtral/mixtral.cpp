#include "models/mixtral/mixtral.h"

#include "core/json.h"
#include "models/config_reader.h"
#include "models/llama/llama.h"

namespace nibble::models::mixtral {
namespace {

constexpr std::int64_t kMaxExperts = 1024;

Architecture read_config(const core::Json& json) {
  NetworkConfig config = llama::read_attention_config(json);
  const ConfigReader reader(json);
  config.ffn = reader.size("intermediate_size", kMaxWidth);
  config.routing.experts = reader.size("num_local_experts", kMaxExperts);
  config.routing.top = reader.size("num_experts_per_tok", kMaxExperts);
  config.windows.assign(static_cast<std::size_t>(config.layers),
                        reader.size_or("sliding_window", 0, kMaxPositions));
  return config;
}

TensorNames names() {
  TensorNames names = llama::attention_names();
  names.router = "block_sparse_moe.gate";
  names.expert = "block_sparse_moe.experts.{}";
  names.mlp = {.gate = "w1", .up = "w3", .down = "w2"};
  return names;
}

}  // namespace

Family mixtral() {
  return {"mixtral", read_config, names()};
}

}  // namespace nibble::models::mixtral
