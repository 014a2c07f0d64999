#include "compress/pipeline.h"

#include <algorithm>

#include "compress/allocation/allocate_formats.h"
#include "compress/block_runner.h"
#include "compress/curvature/curvature_file.h"
#include "compress/curvature/measure_curvature.h"
#include "compress/decoded_block.h"
#include "compress/key_centre.h"
#include "compress/memory_need.h"
#include "compress/model_card.h"
#include "compress/phase_times.h"
#include "compress/quantize_job.h"
#include "compress/relative_error.h"
#include "compress/spill.h"
#include "compress/where_it_runs.h"
#include "core/byte_size.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using formats::PackedWeight;
using models::Block;

// The model that calibration text is sampled from: with the adapter beside it, when there is one.
models::Model with_adapter_of(const PipelineOptions& options, const models::Model& model) {
  return options.adapter ? *models::with_adapter(model, *options.adapter, 1.0f) : model;
}

class Pipeline {
 public:
  Pipeline(const models::Model& model, const Recipe& recipe, const PipelineOptions& options,
           BlockStore& store, core::ProgressSink& progress)
      : source_(model.decoder),
        files_(model.source),
        decoder_(model.decoder),
        true_sequential_(recipe.true_sequential),
        schemes_(layer_schemes(model.decoder, recipe)),
        store_(store),
        progress_(progress),
        ops_({options.threads, ops::ActivationPrecision::kFloat}),
        arithmetic_(make_arithmetic(options.place, ops_.pool())) {
    for (const RecipeStep& step : recipe.steps) {
      passes_.push_back(make_pass(step.pass, step.options));
      pass_names_.push_back(step.pass);
      const Pass& pass = *passes_.back();
      needs_ = std::max(needs_, pass.needs());
      if (pass.stage() <= Stage::kTransforms) {
        transforms_need_ = std::max(transforms_need_, pass.needs());
      }
      if (auto transform = passes_.back()->transform(source_.config)) {
        transform_ = std::move(transform);
      }
    }
    if (options.adapter) {
      pairs_ = options.adapter->pairs_for(source_);
      adapter_scale_ = options.adapter->scale();
    }
    if (transform_) {
      const ChangedEnds ends = transform_->ends(source_, ops_.pool());
      store_.put_ends(ends);
      decoder_ = with_ends(source_, ends);
    }
    if (rounds_output()) {
      const PackedWeight weight = decoder_.output.parts.front().weight;
      decoder_ = with_output(std::move(decoder_), weight);
    }
    const bool mixes = std::any_of(schemes_.begin(), schemes_.end(), [](const auto& entry) {
      return entry.second.inputs.hadamard != 0;
    });
    if (mixes && needs_ == StatisticsKind::kChannels) {
      needs_ = StatisticsKind::kHessian;  // channels alone do not tell what a mixture of them is
    }
    say_where(options);
    if (needs_ == StatisticsKind::kNone) {
      return;
    }
    ops::cpu::reserve_blas_memory(ops_.pool().size());
    CalibrationOptions calibration = options.calibration;
    calibration.threads = options.threads;
    windows_ = calibration.texts.empty()
                   ? sample_calibration(with_adapter_of(options, model), calibration, progress)
                   : read_calibration(model, calibration);
    const bool keeps_original = needs_ >= StatisticsKind::kCross;
    core::require(!keeps_original || decoder_.config.routing.experts == 0, ErrorKind::kUsage,
                  "recipe {}: the tokens of an expert change with the weights before it, so that "
                  "asymmetric calibration is not built for mixtures of experts",
                  core::printable(recipe.name));
    if (needs_curvature()) {
      core::require(transform_ == nullptr, ErrorKind::kUsage,
                    "recipe {}: the curvature of a rotated model is not measured; leave out either "
                    "the rotation or the passes that need the curvature",
                    core::printable(recipe.name));
      core::require(
          pairs_.empty(), ErrorKind::kUsage,
          "recipe {}: the curvature of a model with an adapter is not measured; leave out "
          "the passes that need it",
          core::printable(recipe.name));
      const PhaseTimes::Phase phase(times_, "curvature");
      curvature_ = curvature(calibration.seed);
    }
    runner_ = arithmetic_->make_runner(
        decoder_, windows_, ops_, keeps_original,
        arithmetic_->has_gpu()
            ? std::nullopt
            : spill_folder(decoder_, demand(), options.memory, options.scratch, progress_),
        schemes_);
  }

  std::vector<LayerReport> run() {
    const auto blocks = static_cast<std::int64_t>(source_.blocks.size());
    progress_.begin("quantize", static_cast<std::int64_t>(schemes_.size()));
    for (std::int64_t i = 0; i < blocks; ++i) {
      const Block& block = source_.blocks[static_cast<std::size_t>(i)];
      block_ = fmt::format("block {} of {}", i + 1, blocks);
      auto compressed = store_.finished(i);
      const bool resumed = compressed.has_value();
      if (!resumed) {
        compressed = compress(i, block);
        store_.put(i, *compressed);
      }
      const bool last = i + 1 == blocks;
      if (runner_ && !(last && (!rounds_output() || store_.finished_output()))) {
        show_windows("running");
        const PhaseTimes::Phase phase(times_, "forward");
        runner_->advance(i, decoded(apply_compressed(block, *compressed), ops_.pool()),
                         runner_->keeps_original() ? transformed(block) : Block());
      }
      if (files_ != nullptr) {
        files_->release_pages();
      }
      done_ += layers_of(block);
      fresh_ = 0;
      if (resumed) {
        progress_.skip(done_);
      }
      progress_.update(done_, fmt::format("{} {}", block_, resumed ? "resumed" : "finished"));
    }
    if (rounds_output()) {
      run_output();
    }
    progress_.end();
    if (arithmetic_->has_gpu()) {
      progress_.message(times_.line());
    }
    return std::move(reports_);
  }

 private:
  // With a GPU: one line that says what runs there and what does not.
  void say_where(const PipelineOptions& options) {
    if (!arithmetic_->has_gpu()) {
      return;
    }
    WhereItRuns where;
    if (needs_ != StatisticsKind::kNone) {
      where.add_to_gpu("forward passes and statistics");
      if (options.calibration.texts.empty()) {
        where.add_to_cpu("writing of calibration text");
      }
    }
    if (needs_curvature()) {
      where.add_to_cpu("curvature");
    }
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      where.add(pass_names_[i], *passes_[i], *arithmetic_, schemes_);
    }
    progress_.message(where.line());
  }

  bool needs_curvature() const {
    return std::any_of(passes_.begin(), passes_.end(),
                       [](const auto& pass) { return pass->needs_curvature(); });
  }
  bool rounds_output() const { return schemes_.contains(models::kOutputName); }

  // The output layer is one more set, whose inputs nothing scales.
  void run_output() {
    block_ = "output layer";
    const bool resumed = store_.finished_output();
    if (!resumed) {
      SetWork set = *make_set_work(decoder_.output, schemes_, curvature_);
      std::optional<InputStatistics> statistics = observe_output();
      set.statistics = statistics ? &*statistics : nullptr;
      LayerWork& layer = set.layers.front();
      apply_if(set, [&](const Pass& pass) { return pass.serves_output(layer.scheme); });
      add_left_out(layer);
      report(layer);
      store_.put_output(*layer.packed);
    }
    ++done_;
    fresh_ = 0;
    progress_.update(done_, fmt::format("{} {}", block_, resumed ? "resumed" : "finished"));
  }

  std::optional<InputStatistics> observe_output() {
    if (!runner_) {
      return std::nullopt;
    }
    show_windows("measuring");
    return runner_->observe_output({needs_, std::nullopt, nullptr, &curvature_});
  }

  // Says which passes have no part in the output layer.
  void add_left_out(LayerWork& layer) const {
    std::string names;
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      if (!passes_[i]->serves_output(layer.scheme)) {
        names += (names.empty() ? "" : ", ") + pass_names_[i];
      }
    }
    if (!names.empty()) {
      layer.note += fmt::format("{}without {}", layer.note.empty() ? "" : "; ", names);
    }
  }

  // What the work on the blocks needs of the memory.
  BlockDemand demand() const {
    BlockDemand demand{needs_, true_sequential_, transform_ != nullptr || !pairs_.empty()};
    demand.needs_curvature = !curvature_.empty();
    demand.rounds_output = rounds_output();
    for (const auto& window : windows_) {
      const auto length = static_cast<std::int64_t>(window.size());
      demand.tokens = std::max(demand.tokens, length);
      demand.all_tokens += length;
    }
    return demand;
  }

  // Nothing where an earlier run has left no work for it.
  std::map<int, SetCurvature> curvature(std::uint64_t seed) {
    if (all_is_finished()) {
      return {};
    }
    const auto file = store_.curvature_file();
    return file && files_
               ? kept_or_measured_curvature(*file, *files_, decoder_, windows_, seed, ops_,
                                            progress_, rounds_output())
               : measure_curvature(decoder_, windows_, seed, ops_, progress_, rounds_output());
  }

  // Blocks are finished in their order.
  bool all_is_finished() {
    return store_.finished(std::ssize(source_.blocks) - 1) &&
           (!rounds_output() || store_.finished_output());
  }

  std::int64_t layers_of(const Block& block) const {
    std::int64_t count = 0;
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& part : set->parts) {
        count += schemes_.contains(part.name) ? 1 : 0;
      }
    }
    return count;
  }

  // Says window by window what happens to the windows from here on.
  void show_windows(const std::string& doing) {
    runner_->set_on_window([this, doing](std::size_t window) {
      progress_.update(done_ + fresh_, fmt::format("{}: {} window {} of {}", block_, doing,
                                                   window + 1, windows_.size()));
    });
  }

  // The block as it is to be compressed: with its adapter merged, then transformed.
  Block transformed(const Block& block) {
    const Block merged =
        pairs_.empty() ? block : models::merge_adapter(block, pairs_, adapter_scale_, ops_.pool());
    return transform_ ? transform_->block(merged, ops_.pool()) : merged;
  }

  CompressedBlock compress(std::int64_t index, const Block& original) {
    const Block block = transformed(original);
    BlockWork work(decoder_.config, block, schemes_, curvature_);
    if (true_sequential_) {
      compress_in_turn(index, block, work);
    } else {
      auto statistics = observe(index, block, {needs_, std::nullopt, &block, &curvature_});
      work.use(statistics);
      for (SetWork& set : work.sets()) {
        apply_if(set, [](const Pass& pass) { return pass.stage() <= Stage::kTransforms; });
      }
      for (SetWork& set : work.sets()) {
        finish(set);
        statistics.erase(set.id);
      }
    }
    CompressedBlock compressed = take_compressed(work, block, original);
    if (runner_) {
      add_key_centre(block, compressed);
    }
    return compressed;
  }

  void add_key_centre(const Block& block, CompressedBlock& compressed) {
    std::vector<float> centre =
        key_centre(decoder_.config, block, runner_->mean_input(block.attention_norm));
    if (!centre.empty()) {
      compressed.vectors.emplace(models::key_centre_name(block.attention.qkv), std::move(centre));
    }
  }

  // After the transformations each set is measured and compressed behind the compressed sets before
  // it (GPTQ's "true sequential").
  void compress_in_turn(std::int64_t index, const Block& block, BlockWork& work) {
    auto statistics = observe(index, block, {transforms_need_, std::nullopt, &block, &curvature_});
    work.use(statistics);
    for (SetWork& set : work.sets()) {
      apply_if(set, [](const Pass& pass) { return pass.stage() <= Stage::kTransforms; });
    }
    const bool compares = needs_ >= StatisticsKind::kCross;
    const Block reference = compares ? current_block(work, block, ops_.pool()) : Block();
    for (SetWork& set : work.sets()) {
      statistics = observe(index, current_block(work, block, ops_.pool()),
                           {needs_, set.id, &reference, &curvature_});
      work.use(statistics);
      finish(set);
    }
  }

  // What comes after the transformations, and the end of the float copies.
  void finish(SetWork& set) {
    progress_.update(done_ + fresh_, fmt::format("{}: {}", block_, set.layers.front().layer->name));
    apply_if(set, [](const Pass& pass) { return pass.stage() > Stage::kTransforms; });
    set.statistics = nullptr;
    for (LayerWork& layer : set.layers) {
      report(layer);
      if (layer.packed) {
        layer.target = std::vector<float>();  // gives the memory back, which `= {}` would not
        layer.weights = std::vector<float>();
        layer.kept = std::vector<std::uint8_t>();
      }
    }
  }

  std::map<int, InputStatistics> observe(std::int64_t index, const Block& block,
                                         const Observation& observation) {
    if (!runner_ || observation.kind == StatisticsKind::kNone) {
      return {};
    }
    show_windows("measuring");
    const PhaseTimes::Phase phase(times_, "statistics");
    return runner_->observe(index, block, observation);
  }

  template <typename Wanted>
  void apply_if(SetWork& set, Wanted wanted) {
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      if (wanted(*passes_[i])) {
        const PhaseTimes::Phase phase(times_, pass_names_[i]);
        apply(*passes_[i], set);
      }
    }
  }

  void apply(const Pass& pass, SetWork& set) {
    try {
      pass.apply(set, *arithmetic_);
    } catch (const core::Error& error) {
      const bool full = error.kind() == ErrorKind::kOutOfMemory && arithmetic_->has_gpu();
      core::fail(error.kind(), "layer {}: {}{}", set.layers.front().layer->name, error.what(),
                 full ? "; take fewer --samples, or use --device cpu" : "");
    }
  }

  void report(const LayerWork& layer) {
    if (!layer.packed) {
      return;
    }
    const double error = relative_error(layer.target, *layer.packed, ops_.pool());
    reports_.push_back({layer.layer->name, error, layer.note});
    ++fresh_;
    progress_.update(done_ + fresh_,
                     fmt::format("{}: {} error {:.5f}", block_, layer.layer->name, error));
    if (!layer.note.empty()) {
      progress_.message(fmt::format("{}: {}", layer.layer->name, layer.note));
    }
  }

  const models::Decoder& source_;
  std::shared_ptr<const models::WeightSource> files_;  // null for a model made in memory
  models::Decoder decoder_;  // with the ends that the blocks stand between
  bool true_sequential_;
  std::unique_ptr<ModelTransform> transform_;
  std::map<std::string, formats::Scheme> schemes_;
  BlockStore& store_;
  core::ProgressSink& progress_;
  ops::cpu::CpuOps ops_;
  std::unique_ptr<Arithmetic> arithmetic_;
  std::vector<std::unique_ptr<Pass>> passes_;
  std::vector<std::string> pass_names_;
  std::map<std::string, models::LoraPair> pairs_;  // of the adapter, by layer prefix
  float adapter_scale_ = 1.0f;
  StatisticsKind needs_ = StatisticsKind::kNone;
  StatisticsKind transforms_need_ = StatisticsKind::kNone;
  CalibrationWindows windows_;
  std::map<int, SetCurvature> curvature_;
  std::unique_ptr<BlockRunner> runner_;
  std::string block_;       // "block 3 of 32"
  std::int64_t done_ = 0;   // layers of finished blocks
  std::int64_t fresh_ = 0;  // layers of this block
  std::vector<LayerReport> reports_;
  PhaseTimes times_;
};

void require_plain(const models::Model& model, const PipelineOptions& options) {
  const bool compressed = !model.compression.schemes.empty();
  core::require(!compressed || !options.adapter, ErrorKind::kUsage,
                "{} is already compressed ({}): to merge an adapter its codes would have to be "
                "chosen again; start from the original model, or run it with --lora",
                io::shown(model.path), core::printable(model.compression.recipe));
  core::require(!compressed, ErrorKind::kUsage,
                "{} is already compressed ({}); start from the original model",
                io::shown(model.path), core::printable(model.compression.recipe));
}

// The recipe with its target met.
Recipe allocated(const models::Model& model, const Recipe& recipe, const PipelineOptions& options,
                 core::ProgressSink& progress) {
  if (!recipe.target) {
    return recipe;
  }
  core::require(!options.adapter, ErrorKind::kUsage,
                "recipe '{}': the formats for a target are measured on the model without an "
                "adapter; merge it first (--merge-lora with the recipe f16)",
                core::printable(recipe.name));
  if (options.place.on_gpu()) {
    progress.message("the formats for the target are chosen on the CPU");
  }
  CalibrationOptions calibration = options.calibration;
  calibration.threads = options.threads;
  return allocate_formats(model, recipe, calibration, progress);
}

}  // namespace

std::vector<LayerReport> run_recipe(const models::Model& model, const Recipe& recipe,
                                    const PipelineOptions& options, BlockStore& store,
                                    core::ProgressSink& progress) {
  require_plain(model, options);
  return Pipeline(model, recipe, options, store, progress).run();
}

void quantize_model(const models::Model& model, const Recipe& wanted,
                    const std::filesystem::path& target, const PipelineOptions& options,
                    bool resume, core::ProgressSink& progress) {
  require_plain(model, options);
  const Recipe recipe = allocated(model, wanted, options, progress);
  const auto schemes = layer_schemes(model.decoder, recipe);
  if (options.adapter) {
    (void)options.adapter->pairs_for(model.decoder);  // throws before a folder is made
  }
  CheckpointWriter writer(model, target, job_of(model, recipe, options), recipe.output, resume);
  FolderStore store(writer, schemes);
  PipelineOptions in_folder = options;
  in_folder.scratch = writer.folder();
  run_recipe(model, recipe, in_folder, store, progress);
  writer.complete({recipe.name, schemes, keeps_inputs(recipe)});
  writer.write_file(kModelCardFile,
                    model_card(model, *models::open_model(writer.folder()), recipe, options));
  writer.commit();
}

Quantized quantize_in_memory(const models::Model& model, const Recipe& wanted,
                             const PipelineOptions& options, core::ProgressSink& progress) {
  require_plain(model, options);
  const Recipe recipe = allocated(model, wanted, options, progress);
  MemoryStore store;
  std::vector<LayerReport> layers = run_recipe(model, recipe, options, store, progress);
  auto result = std::make_shared<models::Model>(model);
  result->compression = {recipe.name, layer_schemes(model.decoder, recipe), keeps_inputs(recipe)};
  result->decoder = store.decoder(model.decoder);
  if (model.decoder.config.tied_output && !result->decoder.config.tied_output) {
    result->config_json["tie_word_embeddings"] = false;
  }
  return {std::move(result), std::move(layers)};
}

}  // namespace nibble::compress
