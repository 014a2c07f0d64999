#include "engine/explain.h"

#include "core/error.h"
#include "core/json.h"
#include "engine/kernel_explainer.h"

namespace nibble::engine {
namespace {

core::Json json_of(const ExplainedEpilogue& epilogue) {
  if (epilogue.work.empty()) {
    return {};
  }
  return {
      {"work", epilogue.work}, {"by_kernel", epilogue.apart.empty()}, {"reason", epilogue.apart}};
}

core::Json json_of(const std::optional<KernelTime>& time) {
  if (!time) {
    return {};
  }
  return {{"microseconds", time->microseconds},
          {"limit_microseconds", time->limit_microseconds},
          {"limited_by", time->limited_by_memory ? "memory" : "arithmetic"},
          {"share_of_limit", time->share_of_limit()},
          {"date", time->date}};
}

core::Json json_of(const ExplainedRun& run) {
  core::Json passed = core::Json::array();
  for (const PassedKernel& each : run.passed) {
    passed.push_back({{"kernel", each.kernel}, {"reason", each.reason}});
  }
  return {{"tokens", run.tokens},        {"kernel", run.kernel},
          {"schedule", run.schedule},    {"epilogue", json_of(run.epilogue)},
          {"passed", std::move(passed)}, {"measured", json_of(run.time)}};
}

std::vector<std::string> parts_of(const LayerGroup& group) {
  std::vector<std::string> names;
  for (const LayerPlace& place : group.places) {
    for (std::size_t i = place.first; i < place.first + place.count; ++i) {
      names.push_back(place.set->parts[i].name);
    }
  }
  return names;
}

void require_tokens(const std::vector<std::int64_t>& tokens) {
  constexpr std::int64_t kMostTokens = 1 << 20;
  core::require(!tokens.empty(), core::ErrorKind::kUsage, "no number of tokens was given");
  for (const std::int64_t m : tokens) {
    core::require(m >= 1 && m <= kMostTokens, core::ErrorKind::kUsage,
                  "{} tokens can't be explained; use 1 to {}", m, kMostTokens);
  }
}

}  // namespace

Explanation explain_kernels(const models::Network& network, const RunnerOptions& runner,
                            const ExplainOptions& options, core::ProgressSink& progress) {
  require_tokens(options.tokens);
  const bool on_gpu = runner.place.on_gpu();
  core::require(!on_gpu || !options.measure, core::ErrorKind::kUsage,
                "times of a GPU's kernels are those of nibble tune-kernels; leave --measure out");
  if (on_gpu) {
    require_runs_on_gpu(network);
  }
  const auto explainer = on_gpu ? make_cuda_explainer(runner) : make_cpu_explainer(runner, options);
  const std::vector<LayerGroup> groups = layer_groups(network, explainer->cuts(), options.layer);
  Explanation explanation;
  explanation.device = explainer->device();
  progress.begin("explain", std::ssize(groups));
  for (const LayerGroup& group : groups) {
    ExplainedLayer& layer = explanation.layers.emplace_back();
    layer.name = group.name;
    layer.parts = parts_of(group);
    layer.scheme = to_string(group.problem.scheme);
    layer.n = group.problem.n;
    layer.k = group.problem.k;
    for (const std::int64_t m : options.tokens) {
      layer.runs.push_back(explainer->explain(group, m));
    }
    progress.update(std::ssize(explanation.layers), group.name);
  }
  progress.end();
  explainer->keep();
  explanation.ignored = explainer->ignored;
  return explanation;
}

core::Json to_json(const Explanation& explanation) {
  core::Json layers = core::Json::array();
  for (const ExplainedLayer& layer : explanation.layers) {
    core::Json runs = core::Json::array();
    for (const ExplainedRun& run : layer.runs) {
      runs.push_back(json_of(run));
    }
    layers.push_back({{"name", layer.name},
                      {"parts", layer.parts},
                      {"scheme", layer.scheme},
                      {"n", layer.n},
                      {"k", layer.k},
                      {"runs", std::move(runs)}});
  }
  return {{"device", explanation.device}, {"layers", std::move(layers)}};
}

}  // namespace nibble::engine
