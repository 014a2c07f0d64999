#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "core/progress.h"
#include "models/network.h"

namespace nibble::ops::cuda {
class Schedules;
}

/// Schedules of a GPU's linear layers, measured by tune_kernels() and kept in a file of JSON.
namespace nibble::engine {

/// Where they lie. Neither: nowhere.
struct ScheduleSource {
  std::filesystem::path file;    // this one
  std::filesystem::path folder;  // or the one named after the GPU: "schedules-nvidia-h200.json"
};

struct LoadedSchedules {
  std::shared_ptr<const ops::cuda::Schedules> schedules;  // null: what is built in
  std::string ignored;  // why the file in the folder is not used, where there is one
};

/// Reads the schedules for the GPU of that number. What is wrong with a file that was named is
/// thrown: kIo, kInvalidModel, kUsage when it was measured elsewhere or by other kernels. Nothing
/// is loaded where there is no such GPU.
LoadedSchedules load_schedules(const ScheduleSource& source, int gpu);

/// Times of a layer's kernels with a number of tokens.
struct TunedLinear {
  std::string layer;  // "int4 g128, 16-bit inputs, 4096 x 11008"
  std::int64_t tokens = 0;
  std::string chosen;
  std::string built_in;
  double seconds = 0.0;
  double built_in_seconds = 0.0;
};

struct KernelTuning {
  std::string gpu;
  std::vector<TunedLinear> rows;
  core::HeldJson schedules;    // the contents of the file
  std::filesystem::path file;  // to write them to; empty when the target was nowhere
};

/// Measures the kernels of each kind of compressed linear layer of a model on the GPU of that
/// number, with each number of tokens (none: 1, 2, 4 and so on up to 2048), and chooses. What the
/// target's file says of other layers and numbers is kept, if it was measured here. Throws kUsage
/// where there is no GPU, for other numbers of tokens, and for models without compressed layers; as
/// load_schedules() for a file that is no such file.
KernelTuning tune_kernels(const models::Network& network, std::span<const std::int64_t> tokens,
                          const ScheduleSource& target, int gpu, core::ProgressSink& progress);

}  // namespace nibble::engine
