#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/packed/code_kinds.h"
#include "ops/cuda/schedules/schedule_fields.h"
#include "ops/cuda/schedules/schedules.h"
#include "ops/cuda/small_batch/launch.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using core::Json;

constexpr int kFormatVersion = 1;
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMost = std::numeric_limits<int>::max();

template <typename Value>
using Names = std::initializer_list<std::pair<const char*, Value>>;

constexpr Names<ScaleKind> kScales = {{"f16", ScaleKind::kF16}, {"bf16", ScaleKind::kBf16}};
constexpr Names<std::int64_t> kGroups = {{"1", 1}, {"4", 4}, {"8", 8}};
constexpr Names<GemmInputs> kInputs = {{"16_bits", GemmInputs::kHalf},
                                       {"8_bits", GemmInputs::kInt8},
                                       {"8_bits_by_group", GemmInputs::kInt8ScaledByGroup},
                                       {"bytes", GemmInputs::kBytes}};

template <typename Value>
const char* name_of(const Names<Value>& names, const Value& value) {
  const auto* at = std::find_if(names.begin(), names.end(),
                                [&](const auto& each) { return each.second == value; });
  return at->first;
}

std::vector<std::pair<std::string, CodeKind>> code_names() {
  std::vector<std::pair<std::string, CodeKind>> names;
  for (const CodeKind kind : kCodeKinds) {
    names.emplace_back(name_of(kind), kind);
  }
  return names;
}

// `names`: pairs of a name and a value.
template <typename AnyNames>
auto value_of(const AnyNames& names, const std::string& name, std::string_view key,
              std::string_view what) {
  const auto at = std::find_if(names.begin(), names.end(),
                               [&](const auto& each) { return name == each.first; });
  core::require(at != names.end(), ErrorKind::kInvalidModel, "{}: '{}' is '{}', which is not known",
                what, key, core::printable(name));
  return at->second;
}

int get_int(const Json& json, std::string_view key, std::string_view what, std::int64_t min,
            std::int64_t max) {
  return static_cast<int>(core::get_integer(json, key, what, min, max));
}

bool get_bool(const Json& json, std::string_view key, std::string_view what) {
  const auto value = core::find_bool(json, key, what);
  core::require(value.has_value(), ErrorKind::kInvalidModel, "{}: '{}' is missing", what, key);
  return *value;
}

double microseconds_of(const Json& json, std::string_view what) {
  const auto value = core::find_number(json, "microseconds", what);
  core::require(value && *value > 0, ErrorKind::kInvalidModel,
                "{}: 'microseconds' must be a number above 0", what);
  return *value;
}

std::int64_t bucket_tokens(const Json& json, std::string_view what) {
  const std::int64_t tokens = core::get_integer(json, "tokens", what, 1, kTokenBuckets.back());
  core::require(
      std::find(kTokenBuckets.begin(), kTokenBuckets.end(), tokens) != kTokenBuckets.end(),
      ErrorKind::kInvalidModel, "{}: 'tokens' is {}, which no bucket ends with", what, tokens);
  return tokens;
}

// Items of a list that may be missing, each with its place for messages.
template <typename Take>
void each_item(const Json& json, const char* key, std::string_view what, const Take& take) {
  const auto at = json.find(key);
  if (at == json.end()) {
    return;
  }
  core::require(at->is_array() && std::ssize(*at) <= kMostLayers, ErrorKind::kInvalidModel,
                "{}: '{}' must be a list of at most {}", what, key, kMostLayers);
  for (std::size_t i = 0; i < at->size(); ++i) {
    const std::string place = fmt::format("{}, {}[{}]", what, key, i);
    core::require((*at)[i].is_object(), ErrorKind::kInvalidModel, "{}: must be an object", place);
    take((*at)[i], std::string_view(place));
  }
}

template <typename Schedule>
Schedule schedule_of(const Json& json, std::string_view what) {
  Schedule schedule;
  each_field(schedule, [&]<typename Value>(const char* name, Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      value = get_bool(json, name, what);
    } else {
      value = get_int(json, name, what, 1, kMost);
    }
  });
  return schedule;
}

LinearShape shape_of(const Json& json, std::string_view what) {
  const auto named = [&](const auto& names, const char* key) {
    return value_of(names, core::get_string(json, key, what), key, what);
  };
  LinearShape shape;
  shape.format.codes = named(code_names(), "codes");
  shape.format.scales = named(kScales, "scales");
  shape.format.groups = value_of(
      kGroups, std::to_string(core::get_integer(json, "groups", what, 1, kMost)), "groups", what);
  shape.row_scale = get_bool(json, "row_scale", what);
  shape.inputs = named(kInputs, "inputs");
  shape.tail = core::get_integer(json, "tail", what, 0, kMost);
  shape.n = core::get_integer(json, "n", what, 1, kMost);
  shape.k = core::get_integer(json, "k", what, 1, kMost);
  if (shape.format.codes == CodeKind::kBytes) {
    shape.code = core::get_string(json, "code", what);
  }
  return shape;
}

void read_few(const Json& json, LinearSchedules& layer, std::string_view what) {
  const auto at = json.find("few_tokens");
  if (at == json.end()) {
    return;
  }
  const std::int64_t most = max_small_batch(layer.shape.format, layer.shape.digits());
  const std::string place = fmt::format("{}, few_tokens", what);
  const std::int64_t tiles = (layer.shape.n + kTileRows - 1) / kTileRows;
  SmallBatchSchedule schedule;
  schedule.warps = get_int(*at, "warps", place, 1, small_batch_max_warps(layer.shape.format.codes));
  schedule.stages = get_int(*at, "stages", place, 2, kSmallBatchMaxStages);
  schedule.blocks = get_int(*at, "blocks", place, 1, tiles);
  layer.few = schedule;
  each_item(*at, "measured", place, [&](const Json& item, std::string_view where) {
    const std::int64_t tokens = bucket_tokens(item, where);
    core::require(tokens <= most, ErrorKind::kInvalidModel,
                  "{}: 'tokens' is {}, and {} are few here", where, tokens, most);
    layer.few_microseconds.emplace_back(tokens, microseconds_of(item, where));
  });
}

void read_medium(const Json& json, LinearSchedules& layer, std::string_view what) {
  each_item(json, "medium", what, [&](const Json& item, std::string_view where) {
    MediumTokens medium;
    medium.columns = core::get_integer(item, "columns", where, 1, kMost);
    core::require(std::find(kMediumColumns.begin(), kMediumColumns.end(), medium.columns) !=
                          kMediumColumns.end() &&
                      layer.shape.is_medium(medium.columns / layer.shape.digits()),
                  ErrorKind::kInvalidModel, "{}: there is no choice for {} columns", where,
                  medium.columns);
    core::require(
        std::none_of(layer.medium.begin(), layer.medium.end(),
                     [&](const MediumTokens& other) { return other.columns == medium.columns; }),
        ErrorKind::kInvalidModel, "{}: {} columns stand twice", where, medium.columns);
    const auto schedule = item.find("schedule");
    core::require(schedule != item.end(), ErrorKind::kInvalidModel, "{}: 'schedule' is missing",
                  where);
    medium.schedule = schedule_of<MediumBatchSchedule>(*schedule, where);
    medium.microseconds = microseconds_of(item, where);
    layer.medium.push_back(medium);
  });
}

void read_many(const Json& json, LinearSchedules& layer, std::string_view what) {
  const std::int64_t few = max_small_batch(layer.shape.format, layer.shape.digits());
  each_item(json, "many_tokens", what, [&](const Json& item, std::string_view where) {
    ManyTokens many;
    many.tokens = bucket_tokens(item, where);
    core::require(many.tokens > few && planned_product(layer.shape) != nullptr,
                  ErrorKind::kInvalidModel, "{}: there is no choice for {} tokens", where,
                  many.tokens);
    core::require(
        std::none_of(layer.many.begin(), layer.many.end(),
                     [&](const ManyTokens& other) { return other.tokens == many.tokens; }),
        ErrorKind::kInvalidModel, "{}: {} tokens stand twice", where, many.tokens);
    const auto plan = item.find("plan");
    if (plan != item.end()) {
      many.plan = schedule_of<GemmPlan>(*plan, where);
    }
    core::require(
        many.plan.has_value() != core::find_bool(item, "few_tokens", where).value_or(false),
        ErrorKind::kInvalidModel, "{}: either a 'plan' or 'few_tokens' must be there", where);
    many.microseconds = microseconds_of(item, where);
    layer.many.push_back(many);
  });
}

double rounded(double microseconds) {
  return std::round(microseconds * 1000) / 1000;
}

Json json_of(const LinearSchedules& layer) {
  const LinearShape& shape = layer.shape;
  Json json = {{"codes", name_of(shape.format.codes)},
               {"scales", name_of(kScales, shape.format.scales)},
               {"groups", shape.format.groups},
               {"row_scale", shape.row_scale},
               {"inputs", name_of(kInputs, shape.inputs)},
               {"tail", shape.tail},
               {"n", shape.n},
               {"k", shape.k}};
  if (!shape.code.empty()) {
    json["code"] = shape.code;
  }
  if (layer.few) {
    Json measured = Json::array();
    for (const auto& [tokens, microseconds] : layer.few_microseconds) {
      measured.push_back({{"tokens", tokens}, {"microseconds", rounded(microseconds)}});
    }
    json["few_tokens"] = fields_json(*layer.few);
    json["few_tokens"]["measured"] = std::move(measured);
  }
  Json medium = Json::array();
  for (const MediumTokens& each : layer.medium) {
    medium.push_back({{"columns", each.columns},
                      {"schedule", fields_json(each.schedule)},
                      {"microseconds", rounded(each.microseconds)}});
  }
  json["medium"] = std::move(medium);
  Json many = Json::array();
  for (const ManyTokens& each : layer.many) {
    Json item = {{"tokens", each.tokens}, {"microseconds", rounded(each.microseconds)}};
    if (each.plan) {
      item["plan"] = fields_json(*each.plan);
    } else {
      item["few_tokens"] = true;
    }
    many.push_back(std::move(item));
  }
  json["many_tokens"] = std::move(many);
  if (!layer.date.empty()) {
    json["date"] = layer.date;
  }
  return json;
}

}  // namespace

Schedules Schedules::from_json(const Json& json, std::string_view what) {
  core::get_integer(json, "nibble_schedules", what, kFormatVersion, kFormatVersion);
  ScheduleOrigin origin;
  origin.gpu = core::get_string(json, "gpu", what);
  origin.multiprocessors = get_int(json, "multiprocessors", what, 1, kMost);
  origin.driver = get_int(json, "driver", what, 1, kMost);
  origin.kernels = get_int(json, "kernels", what, 1, kMost);
  Schedules schedules(origin);
  if (origin.kernels != kKernelsVersion) {
    return schedules;
  }
  core::require(json.contains("layers"), ErrorKind::kInvalidModel, "{}: 'layers' is missing", what);
  each_item(json, "layers", what, [&](const Json& item, std::string_view where) {
    LinearSchedules layer;
    layer.shape = shape_of(item, where);
    core::require(schedules.find(layer.shape) == nullptr, ErrorKind::kInvalidModel,
                  "{}: stands twice", where);
    read_few(item, layer, where);
    read_medium(item, layer, where);
    read_many(item, layer, where);
    layer.date = core::find_string(item, "date", where).value_or("");
    schedules.layers_.push_back(std::move(layer));
  });
  return schedules;
}

Json Schedules::to_json() const {
  Json layers = Json::array();
  for (const LinearSchedules& layer : layers_) {
    layers.push_back(json_of(layer));
  }
  return {{"nibble_schedules", kFormatVersion},
          {"gpu", origin_.gpu},
          {"multiprocessors", origin_.multiprocessors},
          {"driver", origin_.driver},
          {"kernels", origin_.kernels},
          {"layers", std::move(layers)}};
}

}  // namespace nibble::ops::cuda
