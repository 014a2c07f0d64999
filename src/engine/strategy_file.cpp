#include "engine/strategy_file.h"

#include <bit>
#include <cmath>
#include <span>

#include "core/cpu_name.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "engine/kernel_explainer.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using core::Json;

constexpr int kFormatVersion = 1;
constexpr std::int64_t kMaxFileBytes = 16 << 20;
constexpr std::size_t kMostEntries = 1 << 16;
constexpr const char* kVersionKey = "nibble_strategies";
constexpr const char* kFloat = "float";

// Models of one shape lose differently, so a matrix of the first block belongs to the key.
std::string model_key(const models::Model& model) {
  core::require(model.compression.schemes.empty(), ErrorKind::kUsage,
                "{} is compressed already; strategies are chosen for the original model",
                io::shown(model.path));
  const models::Network& network = model.network;
  const models::NetworkConfig& config = network.config;
  const core::Tensor& weight =
      models::all_blocks(network).front()->attention.out.parts.front().weight.dense;
  const std::span bytes(reinterpret_cast<const std::byte*>(weight.raw()),
                        static_cast<std::size_t>(weight.bytes()));
  return fmt::format("{}, {} x {}, {} heads, {} kv heads, ffn {}, vocabulary {}, weights {:016x}",
                     config.family, models::all_blocks(network).size(), config.hidden, config.heads,
                     config.kv_heads, config.ffn, config.vocabulary, core::hash64(bytes));
}

Json entry_json(const StrategyKey& key, const StoredStrategy& stored) {
  Json parts = Json::object();
  for (const models::LayerPart part : models::kLayerParts) {
    const auto at = stored.schemes.find(part);
    parts[std::string(name_of(part))] =
        at == stored.schemes.end() ? kFloat : formats::to_string(at->second);
  }
  return {{"model", key.model},
          {"device", key.device},
          {"batch", key.batch},
          {"seq", key.seq},
          {"parts", std::move(parts)},
          {"microseconds", stored.microseconds},
          {"float_microseconds", stored.float_microseconds},
          {"loss", stored.loss},
          {"measure", stored.measure},
          {"date", stored.date}};
}

StrategyKey key_of(const Json& json, std::string_view what) {
  return {core::get_string(json, "model", what), core::get_string(json, "device", what),
          core::get_integer(json, "batch", what, 1, models::kMostStepTexts),
          core::get_integer(json, "seq", what, 1, models::kMostStepTexts)};
}

double finite_number(const Json& json, std::string_view key, std::string_view what) {
  const auto value = core::find_number(json, key, what);
  core::require(value && std::isfinite(*value), ErrorKind::kInvalidModel,
                "{}: '{}' is not a finite number", what, key);
  return *value;
}

models::PartSchemes schemes_of(const Json& json, std::string_view what) {
  const auto parts = json.find("parts");
  core::require(
      parts != json.end() && parts->is_object() && parts->size() == models::kLayerParts.size(),
      ErrorKind::kInvalidModel, "{}: 'parts' must name the four parts", what);
  models::PartSchemes schemes;
  for (const models::LayerPart part : models::kLayerParts) {
    const std::string word = core::get_string(*parts, std::string(name_of(part)), what);
    if (word != kFloat) {
      schemes.emplace(part, formats::parse_scheme(word));
    }
  }
  return schemes;
}

StoredStrategy strategy_of(const Json& json, std::string_view what) {
  return {schemes_of(json, what),
          finite_number(json, "microseconds", what),
          finite_number(json, "float_microseconds", what),
          finite_number(json, "loss", what),
          core::get_string(json, "measure", what),
          core::get_string(json, "date", what)};
}

}  // namespace

std::string strategy_device(const RunnerOptions& runner) {
  if (runner.place.on_gpu()) {
    return make_cuda_explainer(runner)->device();
  }
  return fmt::format("{}, {}, kernels {}", core::cpu_name(),
                     make_cpu_explainer(runner, {})->device(), ops::cpu::kKernelsVersion);
}

std::int64_t strategy_bucket(std::int64_t value, std::string_view what) {
  core::require(value >= 1 && value <= models::kMostStepTexts, ErrorKind::kUsage,
                "{} {} is not in [1, {}]", what, value, models::kMostStepTexts);
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(value)));
}

StrategyKey strategy_key(const models::Model& model, const RunnerOptions& runner,
                         std::int64_t batch, std::int64_t seq) {
  return {model_key(model), strategy_device(runner), strategy_bucket(batch, "--batch"),
          strategy_bucket(seq, "--seq")};
}

StrategyFile StrategyFile::read(const std::filesystem::path& path) {
  StrategyFile file;
  std::error_code error;  // a link that leads nowhere is there, and opening it says so
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return file;
  }
  const std::string what = fmt::format("{}", io::shown(path));
  const Json json = io::load_json_file(path, kMaxFileBytes);
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: is no JSON object", what);
  core::get_integer(json, kVersionKey, what, 1, kFormatVersion);
  const auto list = json.find("strategies");
  core::require(list != json.end() && list->is_array() && list->size() <= kMostEntries,
                ErrorKind::kInvalidModel, "{}: 'strategies' must be a list of at most {}", what,
                kMostEntries);
  for (const Json& entry : *list) {
    core::require(entry.is_object(), ErrorKind::kInvalidModel, "{}: an entry is no object", what);
    file.put(key_of(entry, what), strategy_of(entry, what));
  }
  return file;
}

Json StrategyFile::to_json() const {
  Json list = Json::array();
  for (const auto& [key, stored] : strategies_) {
    list.push_back(entry_json(key, stored));
  }
  return {{kVersionKey, kFormatVersion}, {"strategies", std::move(list)}};
}

std::optional<StoredStrategy> StrategyFile::find(const StrategyKey& key) const {
  const auto at = strategies_.find(key);
  return at == strategies_.end() ? std::nullopt : std::optional(at->second);
}

void StrategyFile::put(const StrategyKey& key, const StoredStrategy& strategy) {
  strategies_.insert_or_assign(key, strategy);
}

std::filesystem::path strategies_in(const std::filesystem::path& folder) {
  return folder / "strategies.json";
}

StoredStrategy require_strategy(const std::filesystem::path& file, const StrategyKey& key) {
  const auto stored = StrategyFile::read(file).find(key);
  core::require(stored.has_value(), ErrorKind::kUsage,
                "no strategy of this model is stored for batch {}, seq {} on {}; measure one with "
                "nibble tune-strategy MODEL --batch {} --seq {}, and the same --device and "
                "--threads",
                key.batch, key.seq, core::printable(key.device), key.batch, key.seq);
  return *stored;
}

}  // namespace nibble::engine
