#include "models/pooling_config.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/json.h"
#include "io/json_file.h"

namespace nibble::models {
namespace {

using core::ErrorKind;
using core::Json;

struct ModeFlag {
  std::string_view key;
  PoolingMode mode;
};
constexpr ModeFlag kModes[] = {{"pooling_mode_cls_token", PoolingMode::kFirst},
                               {"pooling_mode_mean_tokens", PoolingMode::kMean},
                               {"pooling_mode_max_tokens", PoolingMode::kMax}};

PoolingMode read_mode(const Json& config, std::string_view what) {
  std::optional<PoolingMode> mode;
  for (const auto& entry : config.items()) {
    const std::string& key = entry.key();
    if (!key.starts_with("pooling_mode_") || entry.value() != true) {
      continue;
    }
    const auto* known = std::find_if(std::begin(kModes), std::end(kModes),
                                     [&](const ModeFlag& flag) { return flag.key == key; });
    core::require(known != std::end(kModes) && !mode, ErrorKind::kInvalidModel,
                  "{}: '{}' is not supported; one of pooling_mode_cls_token, "
                  "pooling_mode_mean_tokens and pooling_mode_max_tokens is",
                  what, core::printable(key));
    mode = known->mode;
  }
  core::require(mode.has_value(), ErrorKind::kInvalidModel, "{}: no pooling mode is true", what);
  return *mode;
}

}  // namespace

std::optional<Pooling> read_pooling(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "modules.json";
  if (!std::filesystem::exists(file)) {
    return std::nullopt;
  }
  const Json modules = io::load_json_file(file);
  core::require(modules.is_array(), ErrorKind::kInvalidModel, "modules.json must be a list");
  std::optional<Pooling> pooling;
  for (const Json& module : modules) {
    const std::string type = core::get_string(module, "type", "modules.json");
    if (type.ends_with(".Pooling") && !pooling) {
      const std::filesystem::path path = core::get_string(module, "path", "modules.json");
      core::require(
          !path.empty() && path.is_relative() && path.lexically_normal().begin()->string() != "..",
          ErrorKind::kInvalidModel, "modules.json: the path '{}' leads out of the folder",
          core::printable(path.string()));
      pooling = {
          read_mode(io::load_json_file(folder / path / "config.json"), "config of the pooling"),
          false};
    } else if (type.ends_with(".Normalize") && pooling) {
      pooling->normalize = true;
    } else {
      core::require(type.ends_with(".Transformer") && !pooling, ErrorKind::kInvalidModel,
                    "modules.json: a module '{}' is not supported there (a Transformer, a Pooling "
                    "and a Normalize are)",
                    core::printable(type));
    }
  }
  return pooling;
}

}  // namespace nibble::models
