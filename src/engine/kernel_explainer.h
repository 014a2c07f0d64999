#pragma once

#include <memory>
#include <span>
#include <string>

#include "engine/explain.h"
#include "engine/layer_groups.h"
#include "ops/linear_kernel.h"

/// What each device adds to explain.h.
namespace nibble::engine {

class KernelExplainer {
 public:
  virtual ~KernelExplainer() = default;
  /// "cpu, avx2, 2 threads"
  virtual std::string device() const = 0;
  virtual LayerCuts cuts() const = 0;
  virtual ExplainedRun explain(const LayerGroup& group, std::int64_t tokens) = 0;
  /// Keeps what was measured.
  virtual void keep() = 0;
  /// Why stored times are not used, where there are some.
  std::string ignored;
};

std::unique_ptr<KernelExplainer> make_cpu_explainer(const RunnerOptions& runner,
                                                    const ExplainOptions& options);
std::unique_ptr<KernelExplainer> make_cuda_explainer(const RunnerOptions& runner);

/// What a table says of a problem: without its epilogue, which it then asks the taken kernel for.
/// `alone`: nothing but this layer writes the result of its set.
template <typename Kernel, typename Problem>
ExplainedRun explain_run(std::span<const Kernel> table, const Problem& problem, bool alone) {
  Problem plain(problem);
  plain.linear.epilogue = {};
  const Kernel& taken = ops::choose_kernel(table, plain);
  ExplainedRun run;
  run.tokens = problem.linear.m;
  run.kernel = taken.name;
  run.schedule = taken.schedule(plain);
  for (const Kernel& kernel : table) {
    if (&kernel != &taken) {
      const ops::Refusal refusal = kernel.refusal(plain);
      run.passed.push_back(
          {std::string(kernel.name), refusal ? refusal->text() : run.kernel + " comes first"});
    }
  }
  const ops::Epilogue& epilogue = problem.linear.epilogue;
  if (epilogue.adds || epilogue.gate) {
    const ops::Refusal refusal = taken.refusal(problem);
    run.epilogue.work = epilogue.adds ? "residual" : "gate";
    run.epilogue.apart = !alone    ? "several layers, or adapters, write the result"
                         : refusal ? refusal->text()
                                   : "";
  }
  return run;
}

}  // namespace nibble::engine
