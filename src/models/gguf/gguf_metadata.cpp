#include "models/gguf/gguf_metadata.h"

#include <algorithm>
#include <cmath>

#include "core/json.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::require;

constexpr double kSame = 1e-6;  // relative; frequencies are float32

// rope_theta, of wherever config.json has it.
double rope_theta(const core::Json& config) {
  double theta = core::find_number(config, "rope_theta", "config.json").value_or(10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const auto at = config.find(key); at != config.end() && at->is_object()) {
      theta = core::find_number(*at, "rope_theta", key).value_or(theta);
    }
  }
  return theta;
}

bool has_window(const NetworkConfig& config) {
  return std::any_of(config.windows.begin(), config.windows.end(), [&](std::int64_t window) {
    return window > 0 && window < config.max_positions;
  });
}

void require_llama(const Model& model, const std::string& architecture) {
  const NetworkConfig& config = model.network.config;
  require(config.activation == ops::MlpActivation::kSilu, ErrorKind::kInvalidModel,
          "llama.cpp computes {} with SiLU, and this model has another activation", architecture);
  require(!has_window(config), ErrorKind::kInvalidModel,
          "llama.cpp has no sliding window in {}, and this model has one", architecture);
  require(std::ssize(config.inverse_frequency) * 2 == config.head_dim, ErrorKind::kInvalidModel,
          "llama.cpp turns whole heads in {}, and this model parts of them", architecture);
  require(config.rope_factor == 1.0f, ErrorKind::kInvalidModel,
          "rotary scaling of type yarn is not written as gguf");
  require(architecture == "llama" || rope_factors(model).empty(), ErrorKind::kInvalidModel,
          "rotary scaling of {} is not written as gguf", architecture);
}

}  // namespace

std::string gguf_architecture(const Model& model) {
  const NetworkConfig& config = model.network.config;
  const std::string& family = config.family;
  if (family == "gpt2") {
    require(config.activation == ops::MlpActivation::kGeluTanh, ErrorKind::kInvalidModel,
            "llama.cpp computes gpt2 with gelu_new, and this model has another activation");
    return family;
  }
  if (family == "llama" || family == "mistral" || family == "mixtral" || family == "qwen2" ||
      family == "qwen3") {
    const std::string architecture = family.starts_with("qwen") ? family : "llama";
    require_llama(model, architecture);
    return architecture;
  }
  core::fail(
      ErrorKind::kInvalidModel,
      "models of family '{}' are not written as gguf: llama.cpp has none, or another; llama, "
      "mistral, mixtral, qwen2, qwen3 and gpt2 are",
      core::printable(family));
}

void add_metadata(const Model& model, const std::string& architecture, io::GgufKeys& keys) {
  const NetworkConfig& config = model.network.config;
  const auto add = [&](std::string_view name, io::GgufValue::Storage value) {
    keys.emplace(fmt::format("{}.{}", architecture, name), io::GgufValue(std::move(value)));
  };
  const auto size = [&](std::string_view name, std::int64_t value) {
    add(name, static_cast<std::uint32_t>(value));
  };
  keys.emplace("general.architecture", io::GgufValue(architecture));
  keys.emplace(
      "general.name",
      io::GgufValue(std::filesystem::absolute(model.path).lexically_normal().stem().string()));
  keys.emplace("general.quantization_version", io::GgufValue(std::uint32_t{2}));
  size("block_count", config.layers);
  size("context_length", config.max_positions);
  size("embedding_length", config.hidden);
  size("feed_forward_length", config.ffn);
  size("attention.head_count", config.heads);
  size("attention.head_count_kv", config.kv_heads);
  size("vocab_size", config.vocabulary);
  if (config.norm == ops::NormKind::kLayer) {
    add("attention.layer_norm_epsilon", config.norm_eps);
    return;
  }
  add("attention.layer_norm_rms_epsilon", config.norm_eps);
  size("attention.key_length", config.head_dim);
  size("attention.value_length", config.head_dim);
  size("rope.dimension_count", config.head_dim);
  add("rope.freq_base", static_cast<float>(rope_theta(*model.config_json)));
  if (config.routing.experts > 0) {
    size("expert_count", config.routing.experts);
    size("expert_used_count", config.routing.top);
  }
}

std::vector<float> rope_factors(const Model& model) {
  const NetworkConfig& config = model.network.config;
  const double theta = rope_theta(*model.config_json);
  std::vector<float> factors;
  bool any = false;
  for (std::size_t i = 0; i < config.inverse_frequency.size(); ++i) {
    const double plain =
        std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim));
    const double factor = plain / static_cast<double>(config.inverse_frequency[i]);
    any = any || std::abs(factor - 1) > kSame;
    factors.push_back(static_cast<float>(factor));
  }
  return any ? factors : std::vector<float>();
}

}  // namespace nibble::models
