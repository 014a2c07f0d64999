#include "models/lora/lora_config.h"

#include <array>
#include <cmath>
#include <string_view>

#include "core/json.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;

constexpr std::int64_t kMaxRank = 1 << 16;

// Null, false, and empty lists, objects and strings say that something is not there.
bool is_set(const Json& config, std::string_view key) {
  const auto at = config.find(key);
  return at != config.end() && !at->is_null() && *at != false && *at != "" &&
         !((at->is_array() || at->is_object()) && at->empty());
}

struct Refusal {
  std::string_view key;
  std::string_view reason;
};

constexpr std::array<Refusal, 14> kRefused = {{
    {"use_dora", "DoRA also scales the rows of the weights, which is not built"},
    {"lora_bias", "biases of adapters are not built"},
    {"modules_to_save", "modules that are saved whole are not built"},
    {"trainable_token_indices", "trained tokens of the embedding are not built"},
    {"rank_pattern", "ranks by layer are not built"},
    {"alpha_pattern", "scales by layer are not built"},
    {"layer_replication", "repeated layers are not built"},
    {"target_parameters", "adapters of parameters that are not layers are not built"},
    {"alora_invocation_tokens", "adapters that begin at a token are not built"},
    {"use_qalora", "QALoRA pools the inputs of A, which is not built"},
    {"kasa_config", "KaSA changes the weights beside the adapter, which is not built"},
    {"monteclora_config", "MonteCLoRA is not built"},
    {"arrow_config", "routing between adapters is not built"},
    {"use_bdlora", "block-diagonal adapters are not built"},
}};

void refuse_what_is_not_built(const Json& config) {
  for (const Refusal& refusal : kRefused) {
    core::require(!is_set(config, refusal.key), ErrorKind::kInvalidModel, "{}: '{}' is set: {}",
                  kLoraConfigFile, refusal.key, refusal.reason);
  }
  const std::string bias = core::find_string(config, "bias", kLoraConfigFile).value_or("none");
  core::require(bias == "none", ErrorKind::kInvalidModel,
                "{}: 'bias' is '{}': biases that were trained with the adapter are not built",
                kLoraConfigFile, core::printable(bias));
  const auto start = config.find("init_lora_weights");
  if (start == config.end() || !start->is_string()) {
    return;
  }
  const auto name = start->get<std::string>();
  core::require(
      name == "gaussian" || name == "eva" || name == "orthogonal", ErrorKind::kInvalidModel,
      "{}: 'init_lora_weights' is '{}': such adapters may stand beside changed weights of the "
      "model; let PEFT convert it to a plain LoRA (path_initial_model_for_weight_conversion)",
      kLoraConfigFile, core::printable(name));
}

std::vector<std::string> read_targets(const Json& config) {
  std::vector<std::string> targets;
  const auto at = config.find("target_modules");
  if (at == config.end() || !at->is_array()) {
    return targets;  // a regular expression, or "all-linear"
  }
  for (const Json& target : *at) {
    core::require(target.is_string() && !target.get<std::string>().empty(),
                  ErrorKind::kInvalidModel, "{}: 'target_modules' must be a list of names",
                  kLoraConfigFile);
    targets.push_back(target.get<std::string>());
  }
  const bool some_layers =
      is_set(config, "layers_to_transform") || is_set(config, "exclude_modules");
  return some_layers ? std::vector<std::string>() : targets;
}

}  // namespace

LoraConfig read_lora_config(const Json& config) {
  core::require(config.is_object(), ErrorKind::kInvalidModel, "{} must be an object",
                kLoraConfigFile);
  const std::string type = core::get_string(config, "peft_type", kLoraConfigFile);
  core::require(type == "LORA", ErrorKind::kInvalidModel,
                "{}: adapters of type '{}' are not built; LORA is", kLoraConfigFile,
                core::printable(type));
  refuse_what_is_not_built(config);
  core::find_bool(config, "fan_in_fan_out", kLoraConfigFile);
  LoraConfig result;
  result.rank = core::get_integer(config, "r", kLoraConfigFile, 1, kMaxRank);
  const auto alpha = core::find_number(config, "lora_alpha", kLoraConfigFile);
  core::require(alpha.has_value() && std::isfinite(static_cast<float>(*alpha)),
                ErrorKind::kInvalidModel, "{}: 'lora_alpha' must be a number", kLoraConfigFile);
  const bool stabilised = core::find_bool(config, "use_rslora", kLoraConfigFile).value_or(false);
  const auto rank = static_cast<double>(result.rank);
  result.scale = static_cast<float>(*alpha / (stabilised ? std::sqrt(rank) : rank));
  result.targets = read_targets(config);
  return result;
}

}  // namespace nibble::models
