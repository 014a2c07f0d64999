#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/backend/backend.h"
#include "compress/block/block_work.h"
#include "compress/block/compressed_block.h"
#include "compress/calibration/block_runner.h"
#include "compress/pipeline/block_store.h"
#include "compress/pipeline/job_report.h"
#include "compress/pipeline/memory_need.h"
#include "compress/pipeline/phase_times.h"
#include "compress/pipeline/pipeline.h"
#include "compress/pipeline/prepared_model.h"
#include "compress/pipeline/recipe_passes.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// A recipe without a target on its way through a model: see run_recipe().
class RecipeRun {
 public:
  /// Reads or samples the calibration text and measures the curvature, where passes need them.
  RecipeRun(const models::Model& model, const Recipe& recipe, const PipelineOptions& options,
            BlockStore& store, core::ProgressSink& progress);

  /// Once.
  std::vector<LayerReport> run();

 private:
  // Before the first block (recipe_run_setup.cpp).
  StatisticsKind statistics_needed() const;
  void say_where(const PipelineOptions& options) const;
  void calibrate(const models::Model& model, const Recipe& recipe, const PipelineOptions& options);
  void require_curvature_is_built(const Recipe& recipe) const;
  std::map<int, SetCurvature> curvature(std::uint64_t seed);
  BlockDemand demand() const;

  // Block by block (recipe_run.cpp).
  void run_block(std::int64_t index);
  void advance(std::int64_t index, const CompressedBlock& compressed);
  CompressedBlock compress(std::int64_t index, const models::Block& original);
  void compress_at_once(std::int64_t index, const models::Block& block, BlockWork& work);
  void compress_in_turn(std::int64_t index, const models::Block& block, BlockWork& work);
  void transform(BlockWork& work);
  void finish(SetWork& set);
  void run_output();
  void compress_output();
  void add_key_centre(std::int64_t index, const models::Block& block, CompressedBlock& compressed);
  void report_damage();
  std::map<int, InputStatistics> observe(std::int64_t index, const models::Block& block,
                                         const Observation& observation);
  std::optional<InputStatistics> observe_output();
  template <typename Wanted>
  void apply_if(SetWork& set, Wanted wanted);
  void apply(const Pass& pass, SetWork& set);
  void report(const LayerWork& layer);

  // Where a block stands: index counts those of all stacks.
  bool in_encoder(std::int64_t index) const {
    return index < std::ssize(model_.original().encoder.blocks);
  }
  models::NormPlacement norms_of(std::int64_t index) const {
    const models::Network& network = model_.original();
    return in_encoder(index) ? network.encoder.norms : network.decoder.norms;
  }
  bool measures_damage() const { return runner_ && model_.original().has_encoder(); }
  bool magnitudes() const { return passes_.needs_magnitudes(); }
  bool rounds_output() const { return schemes_.contains(models::kOutputName); }
  bool all_is_finished();
  std::int64_t layers_of(const models::Block& block) const;
  void show_windows(const std::string& doing);

  std::shared_ptr<const models::WeightSource> files_;  // null for a model made in memory
  bool true_sequential_;
  std::map<std::string, formats::Scheme> schemes_;  // by layer prefix
  BlockStore& store_;
  core::ProgressSink& progress_;
  ops::cpu::CpuOps ops_;
  Backend backend_;
  RecipePasses passes_;
  PreparedModel model_;
  std::vector<const models::Block*> blocks_;  // of the original, all stacks
  StatisticsKind needs_ = StatisticsKind::kNone;
  CalibrationInputs inputs_;
  std::map<int, SetCurvature> curvature_;  // by set id
  std::unique_ptr<BlockRunner> runner_;    // null where no pass needs statistics
  JobReport report_;
  PhaseTimes times_;
};

}  // namespace nibble::compress
