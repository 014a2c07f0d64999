#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "core/progress.h"
#include "engine/kernel_times.h"
#include "engine/runner.h"

/// Which kernel computes each linear layer of a model, and why no other does.
namespace nibble::engine {

/// A kernel that was not taken.
struct PassedKernel {
  std::string kernel;
  std::string reason;
};

/// What becomes of a product beside its bias.
struct ExplainedEpilogue {
  std::string work;   // "residual" or "gate"; empty: nothing
  std::string apart;  // why an operator of its own does it; empty: the kernel does it
};

/// A layer with a number of tokens.
struct ExplainedRun {
  std::int64_t tokens = 0;
  std::string kernel;
  std::string schedule;
  ExplainedEpilogue epilogue;
  std::vector<PassedKernel> passed;
  std::optional<KernelTime> time;  // when it was last measured
};

/// Equal layers of a model.
struct ExplainedLayer {
  std::string name;                // "layers 0-31 q_proj|k_proj|v_proj"
  std::vector<std::string> parts;  // in the checkpoint
  std::string scheme;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::vector<ExplainedRun> runs;  // in the order of the tokens that were asked for
};

struct Explanation {
  std::string device;  // "cpu, avx2, 2 threads", "NVIDIA H200"
  std::vector<ExplainedLayer> layers;
  std::string ignored;  // why stored times are not used, where there are some
};

struct ExplainOptions {
  std::vector<std::int64_t> tokens = {1, 16, 512};
  std::string layer = {};             // in the checkpoint; empty: all
  bool measure = false;               // on a CPU: time the kernels that are taken
  std::filesystem::path folder = {};  // of measured times of CPUs; empty: they are not kept
};

/// Explains the kernels of options.place. Throws kUsage where that device cannot be used, for a
/// layer that is not there, and for `measure` on a GPU, whose times tune_kernels() stores.
Explanation explain_kernels(const models::Network& network, const RunnerOptions& runner,
                            const ExplainOptions& options, core::ProgressSink& progress);

/// {"device","layers":[...]}: as the members are named.
core::Json to_json(const Explanation& explanation);

}  // namespace nibble::engine
