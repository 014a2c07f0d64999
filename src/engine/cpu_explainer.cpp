#include "core/cpu_name.h"
#include "core/cpu_topology.h"
#include "core/json.h"
#include "engine/cpu_layer_timer.h"
#include "engine/kernel_explainer.h"
#include "io/atomic_file.h"
#include "ops/cpu/linear/linear_kernels.h"

namespace nibble::engine {
namespace {

using ops::ActivationPrecision;
using ops::LinearSet;
using ops::cpu::LayerProblem;

std::string_view name_of(ActivationPrecision activations) {
  switch (activations) {
    case ActivationPrecision::kInt8:
      return "int8";
    case ActivationPrecision::kInt16:
      return "int16";
    case ActivationPrecision::kFloat:
      return "float";
  }
  return "";
}

class CpuExplainer final : public KernelExplainer {
 public:
  CpuExplainer(const RunnerOptions& runner, const ExplainOptions& options)
      : runner_(runner),
        measures_(options.measure),
        threads_(runner.cpu.threads > 0 ? runner.cpu.threads : core::available_cores()),
        isa_(ops::cpu::active_variant().name) {
    if (!options.folder.empty()) {
      file_ = kernel_times_in(options.folder);
      read_times();
    }
  }

  std::string device() const override { return fmt::format("cpu, {}, {} threads", isa_, threads_); }

  // Layers of one scheme and one input stand together, whether or not they run in one call.
  LayerCuts cuts() const override {
    const auto problem = [](const LinearSet& set, std::size_t first, std::size_t last) {
      ops::LinearProblem joint;
      joint.scheme = set.parts[first].weight.scheme;
      joint.k = set.parts[first].weight.k;
      for (std::size_t part = first; part < last; ++part) {
        joint.n += set.parts[part].weight.n;
      }
      return joint;
    };
    const auto joint_parts = [](const LinearSet& set, std::size_t first) {
      const formats::Scheme& scheme = set.parts[first].weight.scheme;
      std::size_t last = first + 1;
      while (last < set.parts.size() && set.parts[last].weight.scheme == scheme) {
        ++last;
      }
      return last - first;
    };
    return {joint_parts, problem};
  }

  ExplainedRun explain(const LayerGroup& group, std::int64_t tokens) override {
    LayerProblem problem;
    problem.linear = group.problem;
    problem.linear.m = tokens;
    problem.activations = runner_.cpu.activations;
    problem.named = ops::cpu::named_variant();
    ExplainedRun run = explain_run(ops::cpu::linear_kernels(), problem, group.places.front().alone);
    const KernelTimeKey key{core::cpu_name(), isa_, threads_, run.kernel, layer_key(group), tokens};
    if (measures_) {
      if (!timer_) {
        timer_.emplace(runner_.cpu);
      }
      times_.put(key, timer_->time(group, tokens));
    }
    run.time = times_.find(key);
    return run;
  }

  void keep() override {
    if (measures_ && !file_.empty()) {
      std::error_code error;
      std::filesystem::create_directories(file_.parent_path(), error);  // writing says what failed
      io::write_file_atomically(file_, times_.to_json().dump(1) + "\n");
    }
  }

 private:
  // A file that can't be read must not be written over.
  void read_times() {
    if (measures_) {
      times_ = KernelTimes::read(file_);
      return;
    }
    try {
      times_ = KernelTimes::read(file_);
    } catch (const core::Error& error) {
      ignored = error.what();
    }
  }

  std::string layer_key(const LayerGroup& group) const {
    return fmt::format("{}, {} x {}, {} activations", group.problem.scheme, group.problem.n,
                       group.problem.k, name_of(runner_.cpu.activations));
  }

  RunnerOptions runner_;
  bool measures_;
  int threads_;
  std::string isa_;
  std::filesystem::path file_;
  KernelTimes times_;
  std::optional<CpuLayerTimer> timer_;
};

}  // namespace

std::unique_ptr<KernelExplainer> make_cpu_explainer(const RunnerOptions& runner,
                                                    const ExplainOptions& options) {
  return std::make_unique<CpuExplainer>(runner, options);
}

}  // namespace nibble::engine
