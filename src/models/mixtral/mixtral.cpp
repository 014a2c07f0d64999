#include "models/mixtral/mixtral.h"

#include <fmt/format.h>

#include "models/config_reader.h"
#include "models/llama/llama.h"

namespace nibble::models::mixtral {
namespace {

constexpr std::int64_t kMaxExperts = 1024;

NetworkConfig read_config(const core::Json& json) {
  NetworkConfig config = llama::read_attention_config(json);
  const ConfigReader reader(json);
  config.ffn = reader.size("intermediate_size", kMaxWidth);
  config.routing.experts = reader.size("num_local_experts", kMaxExperts);
  config.routing.top = reader.size("num_experts_per_tok", kMaxExperts);
  config.windows.assign(static_cast<std::size_t>(config.layers),
                        reader.size_or("sliding_window", 0, kMaxPositions));
  return config;
}

// w1 is the gate, w3 the up projection, w2 the down projection.
Mlp build_expert(const NetworkConfig& config, const std::string& prefix, WeightLoader& loader) {
  Mlp mlp;
  mlp.up = loader.set({loader.linear(prefix + ".w1", config.ffn, config.hidden, false),
                       loader.linear(prefix + ".w3", config.ffn, config.hidden, false)});
  mlp.up.pairs = true;
  mlp.down = loader.set({loader.linear(prefix + ".w2", config.hidden, config.ffn, false)});
  return mlp;
}

Network build(const NetworkConfig& config, WeightLoader& loader) {
  Network model = llama::build_ends(config, loader);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    Block block = llama::build_attention(config, i, false, false, loader);
    const std::string prefix = fmt::format("model.layers.{}.block_sparse_moe", i);
    block.router =
        loader.set({loader.linear(prefix + ".gate", config.routing.experts, config.hidden, false)});
    for (std::int64_t e = 0; e < config.routing.experts; ++e) {
      block.experts.push_back(
          build_expert(config, fmt::format("{}.experts.{}", prefix, e), loader));
    }
    model.decoder.blocks.push_back(std::move(block));
  }
  llama::finish(model, loader);
  return model;
}

}  // namespace

Family mixtral() {
  return {"mixtral", read_config, build};
}

}  // namespace nibble::models::mixtral
