#include "models/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/json.h"
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

std::vector<double> factors(const Json& scaling, std::string_view key, std::size_t count) {
  const auto at = scaling.find(key);
  core::require(at != scaling.end() && at->is_array() && at->size() == count,
                ErrorKind::kInvalidModel, "{}: '{}' must list {} numbers", kWhat, key, count);
  std::vector<double> values;
  for (const Json& value : *at) {
    core::require(value.is_number() && value.get<double>() > 0 && value.get<double>() < 1e12,
                  ErrorKind::kInvalidModel, "{}: '{}' holds {}, must be positive numbers", kWhat,
                  key, core::printable_json(value));
    values.push_back(value.get<double>());
  }
  return values;
}

std::vector<float> divided(const std::vector<double>& frequency,
                           const std::vector<double>& factor) {
  std::vector<float> result;
  for (std::size_t i = 0; i < frequency.size(); ++i) {
    result.push_back(static_cast<float>(frequency[i] / factor[i]));
  }
  return result;
}

// LongRoPE as Phi-3 has it: a divisor for each frequency, of one list for texts within the original
// context and of another beyond it. cos and sin grow by one factor in both.
void scale_long(const Json& json, const Json& scaling, const std::vector<double>& frequency,
                NetworkConfig& config) {
  const auto positions = static_cast<double>(config.max_positions);
  const ConfigReader reader(json);
  const double original =
      number(scaling, "original_max_position_embeddings",
             static_cast<double>(reader.size_or("original_max_position_embeddings",
                                                config.max_positions, kMaxPositions)));
  core::require(original > 1 && original <= positions && original == std::floor(original),
                ErrorKind::kInvalidModel,
                "{}: 'original_max_position_embeddings' is {}, must be 2 to {}", kWhat, original,
                config.max_positions);
  const double ratio = number(scaling, "factor", positions / original);
  const double attention = ratio <= 1 ? 1.0 : std::sqrt(1.0 + std::log(ratio) / std::log(original));
  config.rope_factor = static_cast<float>(number(scaling, "attention_factor", attention));
  config.inverse_frequency = divided(frequency, factors(scaling, "short_factor", frequency.size()));
  const std::vector<double> far = factors(scaling, "long_factor", frequency.size());
  if (original < positions) {
    config.long_rope = LongRope{config.max_positions, divided(frequency, far)};
    config.max_positions = static_cast<std::int64_t>(original);
  }
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
  } else if (type == "longrope" || type == "su") {  // "su": as older files call it
    return scale_long(json, scaling, frequency, config);
  } else {
    core::require(
        type == "default", ErrorKind::kInvalidModel,
        "{}: rotary scaling '{}' is not supported (default, linear, llama3, yarn, longrope are)",
        kWhat, core::printable(type));
  }
  config.inverse_frequency.assign(frequency.begin(), frequency.end());
}

}  // namespace nibble::models
