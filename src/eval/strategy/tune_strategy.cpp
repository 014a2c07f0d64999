#include "eval/strategy/tune_strategy.h"

#include "core/error.h"
#include "eval/strategy/model_step.h"
#include "eval/strategy/part_models.h"
#include "eval/strategy/part_times.h"

namespace nibble::eval {
namespace {

using engine::PartOption;
using formats::Scheme;
using models::LayerPart;

class Tuning {
 public:
  Tuning(const std::shared_ptr<const models::Model>& model, ModelLoss& loss,
         const StrategyOptions& options, core::ProgressSink& progress)
      : models_(model, options.runner.cpu.threads),
        loss_(loss),
        options_(options),
        progress_(progress),
        by_kernel_(!options.runner.place.on_gpu()) {}

  StrategyTuning run() {
    StrategyTuning tuning;
    tuning.by_kernel = by_kernel_;
    tuning.original.microseconds = step_time({});
    tuning.options = measure_parts(tuning.original.microseconds);
    tuning.chosen = first_that_holds(
        rank_strategies(tuning.options, options_.max_loss), [&](const engine::Strategy& strategy) {
          ++tuning.tried;
          tuning.tuned = measure(strategy.schemes);
          return tuning.tuned.loss <= options_.max_loss &&
                 tuning.tuned.microseconds < tuning.original.microseconds;
        });
    if (tuning.chosen.schemes.empty()) {
      tuning.tuned = tuning.original;
    }
    return tuning;
  }

 private:
  std::shared_ptr<const models::Model> made(const models::PartSchemes& schemes) {
    return models_.with(schemes, core::silent_progress());
  }

  double step_time(const models::PartSchemes& schemes) {
    return step_microseconds(
        *make_model_step(made(schemes), options_.batch, options_.seq, options_.runner));
  }

  MeasuredModel measure(const models::PartSchemes& schemes) {
    return {step_time(schemes), loss_.of(made(schemes))};
  }

  engine::PartOptions measure_parts(double float_microseconds) {
    engine::PartOptions options;
    progress_.begin("tune-strategy", static_cast<std::int64_t>(models::kLayerParts.size() *
                                                               options_.candidates.size()));
    add(std::nullopt, float_microseconds, options);
    for (const Scheme& scheme : options_.candidates) {
      add(scheme, float_microseconds, options);
    }
    progress_.end();
    return options;
  }

  // The option of each part that has this scheme.
  void add(const std::optional<Scheme>& scheme, double float_microseconds,
           engine::PartOptions& options) {
    std::map<LayerPart, PartTime> times;
    if (by_kernel_) {
      models::PartSchemes all;
      for (const LayerPart part : models::kLayerParts) {
        if (scheme) {
          all.emplace(part, *scheme);
        }
      }
      times = part_times(made(all)->network, options_);
    }
    for (const LayerPart part : models::kLayerParts) {
      PartOption option{scheme, times[part].microseconds, times[part].limit_microseconds, 0.0};
      if (!by_kernel_) {
        option.microseconds = scheme ? step_time({{part, *scheme}}) : float_microseconds;
      }
      if (scheme) {
        option.loss = loss_.of(made({{part, *scheme}}));
        progress_.update(++done_, fmt::format("{} in {}", name_of(part), *scheme));
      }
      options[part].push_back(option);
    }
  }

  PartModels models_;
  ModelLoss& loss_;
  const StrategyOptions& options_;
  core::ProgressSink& progress_;
  bool by_kernel_;
  std::int64_t done_ = 0;
};

}  // namespace

StrategyTuning tune_strategy(const std::shared_ptr<const models::Model>& model, ModelLoss& loss,
                             const StrategyOptions& options, core::ProgressSink& progress) {
  core::require(model->network.config.routing.experts == 0, core::ErrorKind::kUsage,
                "strategies are not tuned for mixtures of experts, whose layers run with as many "
                "tokens as a router gives them; choose with nibble quantize --quantize-parts");
  return Tuning(model, loss, options, progress).run();
}

}  // namespace nibble::eval
