#include "engine/cuda_kernel_schedules.h"

#include <algorithm>
#include <cctype>
#include <set>

#include <fmt/ranges.h>

#include "core/json.h"
#include "engine/kernel_times.h"
#include "io/file_descriptor.h"
#include "io/json_file.h"
#include "ops/cuda/linear/layer_parts.h"
#include "ops/cuda/packed/unit_rows.h"
#include "ops/cuda/schedules/choose_schedules.h"
#include "ops/cuda/schedules/linear_trial.h"

namespace nibble::engine {
namespace {

using core::ErrorKind;
using ops::cuda::LinearShape;
using ops::cuda::Schedules;

constexpr std::int64_t kMaxFileBytes = 16 << 20;

std::filesystem::path file_of(const ScheduleSource& source, const device::CudaDevice& device) {
  if (!source.file.empty() || source.folder.empty()) {
    return source.file;
  }
  std::string name = device.name;
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  return source.folder / ("schedules-" + name + ".json");
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;  // a link that leads nowhere is there, and opening it says so
  return std::filesystem::symlink_status(path, error).type() !=
         std::filesystem::file_type::not_found;
}

Schedules read_schedules(const std::filesystem::path& path) {
  return Schedules::from_json(io::load_json_file(path, kMaxFileBytes), io::shown(path).str());
}

std::shared_ptr<const Schedules> schedules_for(const device::CudaDevice& device,
                                               const std::filesystem::path& path,
                                               const ops::cuda::KernelLists& kernels) {
  const std::string what = io::shown(path);
  auto schedules = std::make_shared<const Schedules>(read_schedules(path));
  require_origin(*schedules, ops::cuda::origin_of(device), what);
  require_kernels(*schedules, kernels, what);
  return schedules;
}

// Each kind of compressed layer once, in the order of the model.
std::vector<LinearShape> shapes_of(const models::Network& network) {
  std::vector<LinearShape> shapes;
  for (const ops::LinearSet* set : models::linear_sets(network)) {
    for (std::size_t part = 0; part < set->parts.size();) {
      const std::size_t count = ops::cuda::joint_parts(*set, part);
      const ops::LinearProblem layer = ops::cuda::joint_problem(*set, part, part + count);
      if (ops::cuda::wants_units(layer.scheme)) {
        const LinearShape shape = ops::cuda::linear_shape(layer.scheme, layer.n, layer.k);
        if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) {
          shapes.push_back(shape);
        }
      }
      part += count;
    }
  }
  core::require(
      !shapes.empty(), ErrorKind::kUsage,
      "the model has no layers with schedules to measure; dense ones and block-sparse rows "
      "have none");
  return shapes;
}

std::vector<std::int64_t> checked(std::span<const std::int64_t> tokens) {
  const auto& known = ops::cuda::kTokenBuckets;
  if (tokens.empty()) {
    return {known.begin(), known.end()};
  }
  for (const std::int64_t m : tokens) {
    core::require(std::find(known.begin(), known.end(), m) != known.end(), ErrorKind::kUsage,
                  "{} tokens can't be measured; use some of {}", m, fmt::join(known, ", "));
  }
  const std::set<std::int64_t> sorted(tokens.begin(), tokens.end());
  return {sorted.begin(), sorted.end()};
}

ops::cuda::ChosenSchedules measure(const LinearShape& shape, std::span<const std::int64_t> tokens,
                                   int multiprocessors) {
  const ops::cuda::LinearTrial trial(shape, tokens.back());
  const ops::cuda::LinearTimer timer{
      [&](std::int64_t m, const auto& schedule) { return trial.few_tokens(m, schedule); },
      [&](std::int64_t m, const auto& schedule) { return trial.medium(m, schedule); },
      [&](std::int64_t m, const auto& plan) { return trial.gemm(m, plan); }};
  auto chosen = choose_schedules(shape, tokens, linear_candidates(shape, multiprocessors), timer);
  chosen.schedules.date = today();
  return chosen;
}

}  // namespace

LoadedSchedules load_schedules(const ScheduleSource& source, const device::CudaDevice& device,
                               const ops::cuda::KernelLists& kernels) {
  const std::filesystem::path path = file_of(source, device);
  if (!source.file.empty()) {
    return {schedules_for(device, path, kernels), ""};
  }
  if (path.empty() || !is_there(path)) {
    return {};
  }
  try {
    return {schedules_for(device, path, kernels), ""};
  } catch (const core::Error& error) {
    return {nullptr, error.what()};
  }
}

LoadedSchedules load_schedules(const ScheduleSource& source, int gpu) {
  if (gpu >= device::cuda_device_count()) {
    return {};
  }
  const device::CudaDevice device = device::require_cuda_device(gpu);
  return load_schedules(source, device, ops::cuda::kernel_lists(device.multiprocessors));
}

KernelTuning tune_kernels(const models::Network& network, std::span<const std::int64_t> tokens,
                          const ScheduleSource& target, int gpu, core::ProgressSink& progress) {
  const device::CudaDevice device = device::require_cuda_device(gpu);
  const std::vector<std::int64_t> wanted = checked(tokens);
  const std::vector<LinearShape> shapes = shapes_of(network);
  KernelTuning tuning;
  tuning.gpu = device.name;
  tuning.file = file_of(target, device);
  Schedules schedules(ops::cuda::origin_of(device));
  if (!tuning.file.empty() && is_there(tuning.file)) {
    const Schedules known = read_schedules(tuning.file);
    schedules = known.origin() == schedules.origin() ? known : schedules;
  }
  progress.begin("tune", std::ssize(shapes));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto chosen = measure(shapes[i], wanted, device.multiprocessors);
    schedules.add(chosen.schedules);
    for (const ops::cuda::ScheduleChoice& choice : chosen.choices) {
      tuning.rows.push_back({to_string(shapes[i]), choice.tokens, choice.chosen, choice.built_in,
                             choice.seconds, choice.built_in_seconds});
    }
    progress.update(static_cast<std::int64_t>(i) + 1, to_string(shapes[i]));
  }
  progress.end();
  tuning.schedules = schedules.to_json();
  return tuning;
}

}  // namespace nibble::engine
