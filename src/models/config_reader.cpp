#include "models/config_reader.h"

#include <cmath>

#include "core/json.h"

namespace nibble::models {
namespace {

constexpr std::string_view kWhat = "config.json";
using core::ErrorKind;

}  // namespace

std::int64_t ConfigReader::size(std::string_view key, std::int64_t max) const {
  return core::get_integer(config_, key, kWhat, 1, max);
}

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key,
                                                        std::int64_t max) const {
  return core::find_integer(config_, key, kWhat, 1, max);
}

std::int64_t ConfigReader::size_or(std::string_view key, std::int64_t fallback,
                                   std::int64_t max) const {
  return optional_size(key, max).value_or(fallback);
}

float ConfigReader::positive(std::string_view key, double fallback) const {
  const double value = core::find_number(config_, key, kWhat).value_or(fallback);
  core::require(value > 0 && value < 1e12, ErrorKind::kInvalidModel,
                "{}: '{}' is {}, must be positive", kWhat, key, value);
  return static_cast<float>(value);
}

bool ConfigReader::flag(std::string_view key, bool fallback) const {
  return core::find_bool(config_, key, kWhat).value_or(fallback);
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) const {
  return core::find_string(config_, key, kWhat).value_or(std::string(fallback));
}

ops::MlpActivation ConfigReader::activation(std::string_view key, std::string_view fallback) const {
  const std::string name = text(key, fallback);
  if (name == "silu" || name == "swish") {
    return ops::MlpActivation::kSilu;
  }
  if (name == "gelu") {
    return ops::MlpActivation::kGelu;
  }
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return ops::MlpActivation::kGeluTanh;
  }
  if (name == "relu") {
    return ops::MlpActivation::kRelu;
  }
  core::fail(ErrorKind::kInvalidModel,
             "{}: '{}' is '{}', which is not supported (silu, gelu, gelu_new, gelu_pytorch_tanh, "
             "relu are)",
             kWhat, key, core::printable(name));
}

void ConfigReader::only(std::string_view key, const core::Json& value) const {
  const auto at = config_.find(key);
  if (at == config_.end() || at->is_null() || *at == value) {
    return;
  }
  core::fail(ErrorKind::kInvalidModel, "{}: '{}' is {}, only {} is supported", kWhat, key,
             core::printable(at->dump(-1, ' ', true)), value.dump());
}

std::vector<std::int32_t> ConfigReader::token_ids(std::string_view key,
                                                  std::int64_t vocabulary) const {
  std::vector<std::int32_t> ids;
  const auto at = config_.find(key);
  if (at == config_.end() || at->is_null()) {
    return ids;
  }
  const core::Json list = at->is_array() ? *at : core::Json::array({*at});
  core::require(list.size() <= 64, ErrorKind::kInvalidModel, "{}: '{}' lists {} token ids", kWhat,
                key, list.size());
  for (const core::Json& id : list) {
    core::require(id.is_number_integer() && id.get<std::int64_t>() >= -1 &&
                      id.get<std::int64_t>() < vocabulary,
                  ErrorKind::kInvalidModel,
                  "{}: '{}' holds {}, must be token ids below vocab_size {}", kWhat, key,
                  core::printable_json(id), vocabulary);
    if (id.get<std::int64_t>() >= 0) {
      ids.push_back(id.get<std::int32_t>());
    }
  }
  return ids;
}

core::Json with_defaults(const core::Json& config, core::Json defaults) {
  core::require(config.is_object(), ErrorKind::kInvalidModel, "{}: is no JSON object", kWhat);
  defaults.update(config);
  return defaults;
}

void validate(const Architecture& architecture) {
  const NetworkConfig& config = architecture.config;
  const auto check = [](bool good, std::string_view message, std::int64_t a, std::int64_t b) {
    core::require(good, ErrorKind::kInvalidModel, "{}: {} ({} and {})", kWhat, message, a, b);
  };
  check(config.heads % config.kv_heads == 0,
        "attention heads must be a multiple of key/value heads", config.heads, config.kv_heads);
  check(config.head_dim >= 1 && config.head_dim <= 1024, "head size must be 1 to 1024",
        config.head_dim, config.hidden);
  check(config.inverse_frequency.empty() || config.head_dim % 2 == 0,
        "rotary embeddings need an even head size", config.head_dim, config.hidden);
  check(config.routing.experts == 0 || config.routing.top <= config.routing.experts,
        "experts per token must not exceed the number of experts", config.routing.top,
        config.routing.experts);
  core::require(
      config.routing.experts == 0 || architecture.norms == NormPlacement::kPre,
      ErrorKind::kInvalidModel,
      "{}: a mixture of experts with norms behind its layers (post-norm) is not supported", kWhat);
  for (const auto* frequencies : {&config.inverse_frequency, &config.local_inverse_frequency}) {
    for (const float frequency : *frequencies) {
      core::require(std::isfinite(frequency), ErrorKind::kInvalidModel,
                    "{}: the rotary frequencies are not finite", kWhat);
    }
  }
}

}  // namespace nibble::models
