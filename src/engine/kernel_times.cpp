#include "engine/kernel_times.h"

#include <cmath>
#include <ctime>

#include <fmt/chrono.h>

#include "core/error.h"
#include "core/json.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using core::Json;

constexpr int kFormatVersion = 1;
constexpr std::int64_t kMaxFileBytes = 16 << 20;
constexpr std::int64_t kMostEntries = 1 << 16;
constexpr std::int64_t kMostTokens = 1 << 20;
constexpr const char* kVersionKey = "nibble_cpu_kernel_times";

double positive(const Json& json, std::string_view key, std::string_view what) {
  const auto value = core::find_number(json, key, what);
  core::require(value && std::isfinite(*value) && *value > 0, ErrorKind::kInvalidModel,
                "{}: '{}' is not a number above 0", what, key);
  return *value;
}

Json entry_json(const KernelTimeKey& key, const KernelTime& time) {
  return {{"machine", key.machine},
          {"isa", key.isa},
          {"threads", key.threads},
          {"kernel", key.kernel},
          {"layer", key.layer},
          {"tokens", key.tokens},
          {"microseconds", time.microseconds},
          {"limit_microseconds", time.limit_microseconds},
          {"limited_by_memory", time.limited_by_memory},
          {"date", time.date}};
}

KernelTimeKey key_of(const Json& json, std::string_view what) {
  return {core::get_string(json, "machine", what),
          core::get_string(json, "isa", what),
          static_cast<int>(core::get_integer(json, "threads", what, 1, kMostTokens)),
          core::get_string(json, "kernel", what),
          core::get_string(json, "layer", what),
          core::get_integer(json, "tokens", what, 1, kMostTokens)};
}

KernelTime time_of(const Json& json, std::string_view what) {
  const auto by_memory = core::find_bool(json, "limited_by_memory", what);
  core::require(by_memory.has_value(), ErrorKind::kInvalidModel,
                "{}: 'limited_by_memory' is missing", what);
  return {positive(json, "microseconds", what), positive(json, "limit_microseconds", what),
          *by_memory, core::get_string(json, "date", what)};
}

}  // namespace

KernelTimes KernelTimes::read(const std::filesystem::path& path) {
  KernelTimes times;
  std::error_code error;  // a link that leads nowhere is there, and opening it says so
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
    return times;
  }
  const std::string what = io::shown(path);
  const Json json = io::load_json_file(path, kMaxFileBytes);
  core::require(json.is_object(), ErrorKind::kInvalidModel, "{}: is no JSON object", what);
  core::get_integer(json, kVersionKey, what, kFormatVersion, kFormatVersion);
  const std::int64_t kernels = core::get_integer(json, "kernels", what, 0, kMostTokens);
  const auto entries = json.find("times");
  core::require(
      entries != json.end() && entries->is_array() && std::ssize(*entries) <= kMostEntries,
      ErrorKind::kInvalidModel, "{}: 'times' is no list of at most {} entries", what, kMostEntries);
  if (kernels != ops::cpu::kKernelsVersion) {
    return times;
  }
  for (const Json& entry : *entries) {
    core::require(entry.is_object(), ErrorKind::kInvalidModel,
                  "{}: an entry of 'times' is no object", what);
    times.put(key_of(entry, what), time_of(entry, what));
  }
  return times;
}

Json KernelTimes::to_json() const {
  Json list = Json::array();
  for (const auto& [key, time] : times_) {
    list.push_back(entry_json(key, time));
  }
  return {{kVersionKey, kFormatVersion},
          {"kernels", ops::cpu::kKernelsVersion},
          {"times", std::move(list)}};
}

std::optional<KernelTime> KernelTimes::find(const KernelTimeKey& key) const {
  const auto at = times_.find(key);
  return at == times_.end() ? std::nullopt : std::optional(at->second);
}

void KernelTimes::put(const KernelTimeKey& key, const KernelTime& time) {
  times_.insert_or_assign(key, time);
}

std::filesystem::path kernel_times_in(const std::filesystem::path& folder) {
  return folder / "kernels-cpu.json";
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace nibble::engine
