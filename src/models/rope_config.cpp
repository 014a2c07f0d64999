#include "models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/config_reader.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;
constexpr std::string_view kWhat = "config.json rope_scaling";

double number(const Json& scaling, std::string_view key, double fallback) {
  const double value = core::find_number(scaling, key, kWhat).value_or(fallback);
  core::require(value > 0 && value < 1e12, ErrorKind::kInvalidModel,
                "{}: '{}' is {}, must be positive", kWhat, key, value);
  return value;
}

double required(const Json& scaling, std::string_view key) {
  core::require(scaling.contains(key), ErrorKind::kInvalidModel, "{}: '{}' is missing", kWhat, key);
  return number(scaling, key, 0);
}

// Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, a smooth step between.
void scale_llama3(const Json& scaling, std::vector<double>& frequency) {
  const double factor = required(scaling, "factor");
  const double low = required(scaling, "low_freq_factor");
  const double high = required(scaling, "high_freq_factor");
  const double context = required(scaling, "original_max_position_embeddings");
  core::require(high > low, ErrorKind::kInvalidModel,
                "{}: high_freq_factor must exceed low_freq_factor", kWhat);
  for (double& f : frequency) {
    const double turns = context * f / (2 * std::numbers::pi);
    const double keep = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    f = (1 - keep) * f / factor + keep * f;
  }
}

// YaRN, section 3.2: interpolation by turns over the original context, with a ramp over dimensions.
float scale_yarn(const Json& scaling, double theta, std::int64_t dim, double positions,
                 std::vector<double>& frequency) {
  const double factor = required(scaling, "factor");
  const double context = number(scaling, "original_max_position_embeddings", positions);
  const double beta_fast = number(scaling, "beta_fast", 32);
  const double beta_slow = number(scaling, "beta_slow", 1);
  const auto dimension_of = [&](double turns) {
    return static_cast<double>(dim) * std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  const double low = std::max(std::floor(dimension_of(beta_fast)), 0.0);
  const double high = std::min(std::ceil(dimension_of(beta_slow)), static_cast<double>(dim - 1));
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(high - low, 0.001);
    const double interpolate = std::clamp(ramp, 0.0, 1.0);
    frequency[i] = interpolate * frequency[i] / factor + (1 - interpolate) * frequency[i];
  }
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    core::require(!scaling.contains(key), ErrorKind::kInvalidModel, "{}: '{}' is not supported",
                  kWhat, key);
  }
  const double attention = factor <= 1 ? 1.0 : 0.1 * std::log(factor) + 1.0;
  return static_cast<float>(number(scaling, "attention_factor", attention));
}

}  // namespace

void read_rope(const Json& json, NetworkConfig& config) {
  const ConfigReader reader(json);
  Json scaling = Json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (json.contains(key) && !json.at(key).is_null()) {
      scaling = json.at(key);
      core::require(scaling.is_object(), ErrorKind::kInvalidModel,
                    "config.json: '{}' must be an object", key);
    }
  }
  const double theta = number(scaling, "rope_theta", reader.positive("rope_theta", 10000.0));
  core::require(theta > 1, ErrorKind::kInvalidModel,
                "config.json: 'rope_theta' is {}, must exceed 1", theta);
  const double partial =
      number(scaling, "partial_rotary_factor", reader.positive("partial_rotary_factor", 1.0));
  core::require(partial <= 1, ErrorKind::kInvalidModel,
                "config.json: 'partial_rotary_factor' is {}", partial);
  const auto dim = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * partial);
  core::require(dim >= 2 && dim % 2 == 0, ErrorKind::kInvalidModel,
                "config.json: {} rotary dimensions; must be even", dim);
  std::vector<double> frequency(static_cast<std::size_t>(dim / 2));
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    frequency[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
  }
  std::string type = core::find_string(scaling, "rope_type", kWhat).value_or("");
  if (type.empty()) {
    type = core::find_string(scaling, "type", kWhat).value_or("default");
  }
  if (type == "linear") {
    const double factor = required(scaling, "factor");
    std::for_each(frequency.begin(), frequency.end(), [&](double& f) { f /= factor; });
  } else if (type == "llama3") {
    scale_llama3(scaling, frequency);
  } else if (type == "yarn") {
    config.rope_factor =
        scale_yarn(scaling, theta, dim, static_cast<double>(config.max_positions), frequency);
  } else {
    core::require(type == "default", ErrorKind::kInvalidModel,
                  "{}: rotary scaling '{}' is not supported (default, linear, llama3, yarn are)",
                  kWhat, core::printable(type));
  }
  config.inverse_frequency.assign(frequency.begin(), frequency.end());
}

}  // namespace nibble::models
