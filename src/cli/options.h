#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/option.h"
#include "core/error.h"
#include "engine/kernel_schedules.h"
#include "engine/runner.h"
#include "models/lora/lora_adapter.h"

namespace nibble::cli {

/// Whether a command can print one JSON object and nothing else on stdout.
enum class JsonOutput { kNo, kYes };

/// What every command takes: -v, -q, --json where it makes sense.
struct CommonOptions {
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  void add(CLI::App& app, JsonOutput with_json);
};

/// --threads. `threads` must outlive the parsing.
void add_threads(CLI::App& app, int& threads);

/// A check of CLI11 by a function that throws core::Error for values that are none.
template <typename Parse>
auto parsed_by(Parse parse) {
  return [parse](const std::string& value) {
    try {
      static_cast<void>(parse(value));
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
}

/// How a model is run.
struct DeviceOptions {
  /// Those of commands that measure what a model predicts: its keys and values are kept exactly.
  static DeviceOptions exact();

  int threads = 0;
  std::string device = "cpu";
  std::string activations = "int8";
  std::string kv_type = "f16";
  bool pin = false;
  std::string numa = "none";
  std::string packed;
  std::string schedules;  // empty: of the environment, or those that lie in the cache
  void add(CLI::App& app);
  /// Those of them that the kernels of linear layers depend on.
  void add_kernels(CLI::App& app);
  /// --packed, for commands that run one stored model.
  void add_packed(CLI::App& app);
  /// Reads schedules too; says on stderr why those of the cache are not used. Throws kUsage, and as
  /// engine::load_schedules.
  engine::RunnerOptions runner() const;
  /// The same with the layouts of a stored model: those of --packed, or those that lie in its
  /// folder.
  engine::RunnerOptions runner(const std::string& model) const;

 private:
  const CLI::Option* quiet_ = nullptr;
};

/// Where the schedules of `said` lie: "none", a file, or, where nothing was said, what
/// NIBBLE_SCHEDULES says, or else the cache: $XDG_CACHE_HOME/nibble or ~/.cache/nibble.
engine::ScheduleSource schedule_source(const std::string& said);

/// $XDG_CACHE_HOME/nibble or ~/.cache/nibble; empty where there is no such place.
std::filesystem::path cache_folder();

/// --lora and --lora-scale: an adapter beside a model that runs.
struct LoraOptions {
  std::string folder;  // empty: none
  double scale = 1.0;
  void add(CLI::App& app);

  /// Opens a model, with the adapter beside it when one was given. Throws as models::open_model and
  /// models::with_adapter.
  std::shared_ptr<models::Model> open(const std::string& model, const device::Place& place) const;

  /// The adapter alone; null when none was given. Throws as models::LoraAdapter::open.
  std::shared_ptr<const models::LoraAdapter> adapter() const;
};

/// Help of --memory, and its value in bytes: 0 when it was not given. Throws kUsage.
inline constexpr const char* kMemoryHelp =
    "Memory to aim at (6GiB, 500MB): calibration activations that do not fit beside the work on "
    "one "
    "block, as estimated from its sizes (float32 weights twice, Hessians and their factor, "
    "activations of one window, curvature where a recipe needs it), go to a temporary file. Pages "
    "of the mapped model are not counted";
std::int64_t memory_bytes(const std::string& text);

}  // namespace nibble::cli
