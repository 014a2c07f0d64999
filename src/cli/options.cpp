#include "cli/options.h"

#include <cmath>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "cli/open_model.h"
#include "cli/output.h"
#include "core/byte_size.h"
#include "core/cpu_topology.h"
#include "core/error.h"
#include "device/cuda_devices.h"
#include "engine/divided_runner.h"
#include "engine/tile_file.h"

namespace nibble::cli {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path cache_folder() {
  const std::filesystem::path cache = environment("XDG_CACHE_HOME");
  if (cache.is_absolute()) {  // relative ones are ignored: XDG Base Directory Specification 0.8
    return cache / "nibble";
  }
  const std::filesystem::path home = environment("HOME");
  return home.empty() ? home : home / ".cache" / "nibble";
}

engine::ScheduleSource schedule_source(const std::string& said) {
  const std::string file = said.empty() ? environment("NIBBLE_SCHEDULES") : said;
  if (file == "none") {
    return {};
  }
  return file.empty() ? engine::ScheduleSource{{}, cache_folder()}
                      : engine::ScheduleSource{file, {}};
}

void CommonOptions::add(CLI::App& app, JsonOutput with_json) {
  add_flag(app, "-q,--quiet", quiet, "No progress, errors only");
  add_flag(app, "-v,--verbose", verbose, "Say more about what is done");
  if (with_json == JsonOutput::kYes) {
    add_flag(app, "--json", json, "Print one JSON object on stdout and nothing else");
  }
}

void add_threads(CLI::App& app, int& threads) {
  Option(app.add_option_function<int>(
             "--threads", [&threads](int asked) { threads = core::usable_threads(asked); },
             "CPU threads, no more than there are CPUs (0: one for each core)"))
      ->in_range(0, 4096);
}

DeviceOptions DeviceOptions::exact() {
  DeviceOptions options;
  options.kv_type = "f32";
  return options;
}

void DeviceOptions::add(CLI::App& app) {
  add_kernels(app);
  add_flag(app, "--pin", pin, "Keep each thread on a core of its own");
  add_option(app, "--numa", numa, "Memory nodes: none, interleave or isolate")
      ->check(parsed_by(core::parse_numa))
      ->capture_default_str();
  add_option(app, "--kv-type", kv_type,
             "Keys and values in the cache: f16, f32, fp8, int8, int4, or apart: int8-int4")
      ->check(parsed_by(ops::parse_kv_types))
      ->capture_default_str();
}

void DeviceOptions::add_kernels(CLI::App& app) {
  add_threads(app, threads);
  add_option(app, "--device", device,
             "Where to run: cpu, cuda (an NVIDIA GPU), or cuda:1 (the second one)")
      ->check(parsed_by(device::parse_place))
      ->capture_default_str();
  add_option(app, "--activations", activations,
             "Activations of compressed layers: int8, int16 (nearly exact), or float (exact, "
             "slow; on a "
             "GPU of 16-bit layers)")
      ->check(parsed_by(ops::parse_activations))
      ->capture_default_str();
  add_option(app, "--schedules", schedules,
             "With --device cuda: file of nibble tune-kernels, or none (default: the GPU's file "
             "in ~/.cache/nibble, if it is there)");
  quiet_ = app.get_option_no_throw("--quiet");
}

void DeviceOptions::add_packed(CLI::App& app) {
  add_option(app, "--packed", packed,
             "File of nibble pack to map (default: cpu-tiles.nibble in the model's folder, if "
             "it is there)");
}

engine::RunnerOptions DeviceOptions::runner(const std::string& model) const {
  engine::RunnerOptions options = engine::with_own_tiles(runner(), model);
  if (!packed.empty()) {
    options.tile_file = packed;
  }
  return options;
}

void LoraOptions::add(CLI::App& app) {
  const Option lora =
      add_option(app, "--lora", folder, "Folder of a PEFT LoRA adapter to run beside it");
  add_option(app, "--lora-scale", scale, "Multiplies what the adapter adds")
      ->needs(lora)
      ->capture_default_str();
}

std::shared_ptr<const models::LoraAdapter> LoraOptions::adapter() const {
  core::require(std::isfinite(static_cast<float>(scale)), core::ErrorKind::kUsage,
                "--lora-scale {} is not a finite number", scale);
  return folder.empty()
             ? nullptr
             : std::make_shared<const models::LoraAdapter>(models::LoraAdapter::open(folder));
}

std::shared_ptr<models::Model> LoraOptions::open(const std::string& model,
                                                 const device::Place& place) const {
  const auto beside = adapter();
  auto opened = cli::open_model(model, engine::stored_layers_for(place));
  return beside ? models::with_adapter(*opened, *beside, static_cast<float>(scale)) : opened;
}

std::int64_t memory_bytes(const std::string& text) {
  return text.empty() ? 0 : core::parse_byte_size(text, "--memory");
}

engine::RunnerOptions DeviceOptions::runner() const {
  engine::RunnerOptions options;
  const ranks::RankPlace rank = ranks::find_place();
  options.place = engine::place_of_rank(device::parse_place(device), rank,
                                        rank.alone() ? 0 : device::cuda_device_count());
  core::require(!options.place.on_gpu() ||
                    (activations != "int16" && !pin && numa == "none" && packed.empty()),
                core::ErrorKind::kUsage,
                "--activations int16, --pin, --numa and --packed are for --device cpu; leave them "
                "out");
  core::require(options.place.on_gpu() || schedules.empty(), core::ErrorKind::kUsage,
                "--schedules is for --device cuda; leave it out");
  if (options.place.on_gpu()) {
    const engine::LoadedSchedules loaded =
        engine::load_schedules(schedule_source(schedules), options.place.index);
    options.schedules = loaded.schedules;
    if (!loaded.ignored.empty() && rank.rank == 0 && (quiet_ == nullptr || quiet_->count() == 0)) {
      print_note("nibble: schedules are not used: {}\n", loaded.ignored);
    }
  }
  options.cpu.threads = threads;
  options.cpu.pin = pin;
  options.cpu.numa = core::parse_numa(numa);
  options.cpu.activations = ops::parse_activations(activations);
  options.kv_types = ops::parse_kv_types(kv_type);
  return options;
}

}  // namespace nibble::cli
