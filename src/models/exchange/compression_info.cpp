#include "models/exchange/compression_info.h"

#include <cmath>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "io/json_file.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;

constexpr std::string_view kKey = "quantization_config";
constexpr std::string_view kWhat = formats::exchange::kConfigName;

struct OlderFile {
  const char* name;
  const char* method;
};
constexpr OlderFile kOlderFiles[] = {{"quantize_config.json", "gptq"},
                                     {"quant_config.json", "awq"}};

std::optional<TunedStep> read_tuned(const Json& compression) {
  const auto at = compression.find("tuned");
  if (at == compression.end()) {
    return std::nullopt;
  }
  const std::string what = std::string(kWhat) + " tuned";
  core::require(at->is_object(), ErrorKind::kInvalidModel, "{}: must be an object", what);
  const auto loss = core::find_number(*at, "loss", what);
  core::require(loss && std::isfinite(*loss), ErrorKind::kInvalidModel,
                "{}: 'loss' is not a finite number", what);
  return TunedStep{core::get_string(*at, "device", what),
                   core::get_integer(*at, "batch", what, 1, kMostStepTexts),
                   core::get_integer(*at, "seq", what, 1, kMostStepTexts), *loss,
                   core::get_string(*at, "measure", what)};
}

CompressionInfo read_own(const Json& config) {
  CompressionInfo info;
  core::get_integer(config, "format_version", kWhat, 1, kCheckpointVersion);
  info.recipe = core::get_string(config, "recipe", kWhat);
  info.keeps_inputs = core::find_bool(config, "keeps_inputs", kWhat);
  info.tuned = read_tuned(config);
  const auto layers = config.find("layers");
  core::require(layers != config.end() && layers->is_object(), ErrorKind::kInvalidModel,
                "{}: 'layers' must be an object", kWhat);
  for (const auto& [name, scheme] : layers->items()) {
    core::require(scheme.is_string(), ErrorKind::kInvalidModel,
                  "{}: the scheme of layer '{}' must be a string", kWhat, core::printable(name));
    info.schemes.emplace(name, formats::parse_scheme(scheme.get<std::string>()));
  }
  return info;
}

}  // namespace

CompressionInfo read_compression(const Json& config) {
  const auto at = config.find(kKey);
  if (at == config.end() || at->is_null()) {
    return {};
  }
  if (core::get_string(*at, "quant_method", kWhat) == "nibble") {
    return read_own(*at);
  }
  CompressionInfo info;
  info.reader = formats::exchange::make_reader(*at);
  info.recipe = info.reader->description();
  return info;
}

namespace {

// mlx-lm writes "quantization", in newer folders also a copy of it, and names no method.
bool add_mlx_config(Json& config) {
  const auto stored = config.find("quantization");
  const auto copy = config.find(kKey);
  const bool named =
      copy != config.end() && !(copy->is_object() && !copy->contains("quant_method"));
  if (stored == config.end() || !stored->is_object() || !stored->contains("group_size") || named) {
    return false;
  }
  Json compression = *stored;
  compression["quant_method"] = "mlx";
  config[std::string(kKey)] = std::move(compression);
  return true;
}

}  // namespace

void add_older_config(Json& config, const std::filesystem::path& folder) {
  if (!config.is_object() || add_mlx_config(config) || config.contains(kKey)) {
    return;
  }
  for (const OlderFile& file : kOlderFiles) {
    std::error_code error;
    if (!std::filesystem::exists(folder / file.name, error)) {
      continue;
    }
    Json older = io::load_json_file(folder / file.name);
    core::require(older.is_object(), ErrorKind::kInvalidModel, "{}: not an object", file.name);
    older.emplace("quant_method", file.method);
    config[std::string(kKey)] = std::move(older);
    return;
  }
}

}  // namespace nibble::models
