#include <algorithm>

#include "compress/calibration/curvature_file.h"
#include "compress/calibration/measure_curvature.h"
#include "compress/pipeline/recipe_run.h"
#include "compress/pipeline/spill.h"
#include "compress/pipeline/where_it_runs.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;

// The model that calibration text is sampled from: with the adapter beside it, when there is one.
models::Model with_adapter_of(const PipelineOptions& options, const models::Model& model) {
  return options.adapter ? *models::with_adapter(model, *options.adapter, 1.0f) : model;
}

}  // namespace

RecipeRun::RecipeRun(const models::Model& model, const Recipe& recipe,
                     const PipelineOptions& options, BlockStore& store,
                     core::ProgressSink& progress)
    : files_(model.source),
      true_sequential_(recipe.true_sequential),
      schemes_(layer_schemes(model.network, recipe)),
      store_(store),
      progress_(progress),
      ops_({options.threads, ops::ActivationPrecision::kFloat}),
      backend_(make_backend(options.place, ops_.pool())),
      passes_(recipe),
      model_(model.network, options.adapter.get(), passes_.transform(model.network), store,
             ops_.pool()),
      blocks_(models::all_blocks(model.network)),
      needs_(statistics_needed()),
      report_(progress) {
  if (rounds_output()) {
    model_.separate_output();
  }
  say_where(options);
  if (needs_ != StatisticsKind::kNone) {
    calibrate(model, recipe, options);
  }
}

StatisticsKind RecipeRun::statistics_needed() const {
  const StatisticsKind needs = passes_.needs();
  const bool mixes = std::any_of(schemes_.begin(), schemes_.end(), [](const auto& entry) {
    return entry.second.inputs.hadamard != 0;
  });
  // Channels alone do not tell what a mixture of them is.
  return mixes && needs == StatisticsKind::kChannels ? StatisticsKind::kHessian : needs;
}

// With a GPU: one line that says what runs there and what does not.
void RecipeRun::say_where(const PipelineOptions& options) const {
  if (!backend_.has_gpu()) {
    return;
  }
  WhereItRuns where;
  if (needs_ != StatisticsKind::kNone) {
    where.add_to_gpu("forward passes and statistics");
    if (options.calibration.texts.empty()) {
      where.add_to_cpu("writing of calibration text");
    }
  }
  if (passes_.needs_curvature()) {
    where.add_to_cpu("curvature");
  }
  for (const RecipePasses::Entry& entry : passes_.entries()) {
    where.add(entry.name, *entry.pass, schemes_);
  }
  progress_.message(where.line());
}

void RecipeRun::calibrate(const models::Model& model, const Recipe& recipe,
                          const PipelineOptions& options) {
  ops::cpu::reserve_blas_memory(ops_.pool().size());
  CalibrationOptions calibration = options.calibration;
  calibration.threads = options.threads;
  inputs_ = calibration_inputs(with_adapter_of(options, model), calibration, progress_);
  const bool compares = needs_ >= StatisticsKind::kCross;
  core::require(!compares || model.network.config.routing.experts == 0, ErrorKind::kUsage,
                "recipe {}: the tokens of an expert change with the weights before it, so that "
                "asymmetric calibration is not built for mixtures of experts",
                core::printable(recipe.name));
  if (passes_.needs_curvature()) {
    require_curvature_is_built(recipe);
    const PhaseTimes::Phase phase(times_, "curvature");
    curvature_ = curvature(calibration.seed);
  }
  runner_ = make_block_runner(
      backend_, model_.network(), inputs_, ops_, compares || model.network.has_encoder(),
      backend_.has_gpu()
          ? std::nullopt
          : spill_folder(model_.network(), demand(), options.memory, options.scratch, progress_),
      schemes_);
}

void RecipeRun::require_curvature_is_built(const Recipe& recipe) const {
  core::require(!model_.is_transformed(), ErrorKind::kUsage,
                "recipe {}: the curvature of a rotated model is not measured; leave out either "
                "the rotation or the passes that need the curvature",
                core::printable(recipe.name));
  core::require(!model_.has_adapter(), ErrorKind::kUsage,
                "recipe {}: the curvature of a model with an adapter is not measured; leave out "
                "the passes that need it",
                core::printable(recipe.name));
}

// Nothing where an earlier run has left no work for it.
std::map<int, SetCurvature> RecipeRun::curvature(std::uint64_t seed) {
  if (all_is_finished()) {
    return {};
  }
  const auto file = store_.curvature_file();
  return file && files_
             ? kept_or_measured_curvature(*file, *files_, model_.network(), inputs_, seed, ops_,
                                          progress_, rounds_output())
             : measure_curvature(model_.network(), inputs_, seed, ops_, progress_, rounds_output());
}

// What the work on the blocks needs of the memory.
BlockDemand RecipeRun::demand() const {
  BlockDemand demand{needs_, true_sequential_, model_.is_transformed() || model_.has_adapter()};
  demand.needs_curvature = !curvature_.empty();
  demand.rounds_output = rounds_output();
  demand.keeps_original = needs_ >= StatisticsKind::kCross || model_.original().has_encoder();
  demand.tokens = inputs_.longest();
  demand.all_tokens = inputs_.all_tokens();
  return demand;
}

}  // namespace nibble::compress
