#include "compress/pipeline.h"

#include <algorithm>

#include "compress/block_runner.h"
#include "compress/checkpoint.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using formats::PackedWeight;
using models::Block;

// float32 copies of the weights of one layer.
core::Tensor float_weights(const PackedWeight& weight) {
  core::Tensor tensor = core::Tensor::zeros(core::DType::kF32, {weight.n, weight.k});
  auto values = tensor.mutable_data<float>();
  for (std::int64_t row = 0; row < weight.n; ++row) {
    formats::decode_row(weight, row,
                        values.subspan(static_cast<std::size_t>(row * weight.k),
                                       static_cast<std::size_t>(weight.k)));
  }
  return tensor;
}

// `block` with float32 weights where activations come in float and as they are: decoded once for
// all windows.
Block decoded(Block block) {
  for (ops::LinearSet* set : models::linear_sets(block)) {
    for (ops::Linear& part : set->parts) {
      const formats::Scheme& scheme = part.weight.scheme;
      if (scheme.kind != formats::FormatKind::kDense && scheme.activation.is_float() &&
          scheme.hadamard == 0) {
        part.weight = formats::dense_weight(float_weights(part.weight));
      }
    }
  }
  return block;
}

double relative_error(const std::vector<float>& target, const PackedWeight& packed) {
  std::vector<float> row(static_cast<std::size_t>(packed.k));
  double error = 0;
  double total = 0;
  for (std::int64_t i = 0; i < packed.n; ++i) {
    formats::decode_row(packed, i, row);
    for (std::int64_t j = 0; j < packed.k; ++j) {
      const double weight = target[static_cast<std::size_t>(i * packed.k + j)];
      const double difference = weight - row[static_cast<std::size_t>(j)];
      error += difference * difference;
      total += weight * weight;
    }
  }
  return total > 0 ? error / total : 0;
}

class Pipeline {
 public:
  Pipeline(const models::Model& model, const Recipe& recipe, const PipelineOptions& options,
           BlockStore& store, core::ProgressSink& progress)
      : source_(model.decoder),
        decoder_(model.decoder),
        schemes_(layer_schemes(model.decoder, recipe)),
        store_(store),
        progress_(progress),
        ops_({options.threads, ops::cpu::ActivationPrecision::kFloat}) {
    for (const RecipeStep& step : recipe.steps) {
      passes_.push_back(make_pass(step.pass, step.options));
      needs_ = std::max(needs_, passes_.back()->needs());
      if (auto transform = passes_.back()->transform(source_.config)) {
        transform_ = std::move(transform);
      }
    }
    if (transform_) {
      const ChangedEnds ends = transform_->ends(source_, ops_.pool());
      store_.put_ends(ends);
      decoder_ = with_ends(source_, ends);
    }
    const bool mixes = std::any_of(schemes_.begin(), schemes_.end(),
                                   [](const auto& entry) { return entry.second.hadamard != 0; });
    if (mixes && needs_ == StatisticsKind::kChannels) {
      needs_ = StatisticsKind::kHessian;  // channels alone do not tell what a mixture of them is
    }
    if (needs_ == StatisticsKind::kNone) {
      return;
    }
    CalibrationOptions calibration = options.calibration;
    calibration.threads = options.threads;
    windows_ = calibration.texts.empty() ? sample_calibration(model, calibration, progress)
                                         : read_calibration(model, calibration);
    runner_.emplace(decoder_, windows_, ops_);
  }

  std::vector<LayerReport> run(const std::string& title) {
    const auto blocks = static_cast<std::int64_t>(source_.blocks.size());
    progress_.begin(title, blocks);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const Block& block = source_.blocks[static_cast<std::size_t>(i)];
      auto compressed = store_.finished(i);
      if (!compressed) {
        compressed = compress(i, block);
        store_.put(i, *compressed);
      }
      if (runner_ && i + 1 < blocks) {
        runner_->advance(i, decoded(apply_compressed(block, *compressed)));
      }
      progress_.update(i + 1, block_note(i));
    }
    progress_.end();
    return std::move(reports_);
  }

 private:
  std::string block_note(std::int64_t block) const {
    if (reports_.empty()) {
      return fmt::format("block {} resumed", block);
    }
    const LayerReport& last = reports_.back();
    return fmt::format("block {}: {} error {:.5f}", block, last.name, last.relative_error);
  }

  CompressedBlock compress(std::int64_t index, const Block& original) {
    const Block block = transform_ ? transform_->block(original, ops_.pool()) : original;
    std::map<int, InputStatistics> statistics;
    if (runner_) {
      statistics = runner_->observe(index, block, needs_);
    }
    BlockWork work(decoder_.config, block, schemes_, statistics);
    for (const auto& pass : passes_) {
      for (SetWork& set : work.sets()) {
        apply(*pass, set);
      }
    }
    for (const SetWork& set : work.sets()) {
      for (const LayerWork& layer : set.layers) {
        report(layer);
      }
    }
    return take_compressed(work, block, original);
  }

  void apply(const Pass& pass, SetWork& set) {
    try {
      pass.apply(set, ops_.pool());
    } catch (const core::Error& error) {
      core::fail(error.kind(), "layer {}: {}", set.layers.front().layer->name, error.what());
    }
  }

  void report(const LayerWork& layer) {
    if (!layer.packed) {
      return;
    }
    reports_.push_back(
        {layer.layer->name, relative_error(layer.target, *layer.packed), layer.note});
    if (!layer.note.empty()) {
      progress_.message(fmt::format("{}: {}", layer.layer->name, layer.note));
    }
  }

  const models::Decoder& source_;
  models::Decoder decoder_;  // with the ends that the blocks stand between
  std::unique_ptr<ModelTransform> transform_;
  std::map<std::string, formats::Scheme> schemes_;
  BlockStore& store_;
  core::ProgressSink& progress_;
  ops::cpu::CpuOps ops_;
  std::vector<std::unique_ptr<Pass>> passes_;
  StatisticsKind needs_ = StatisticsKind::kNone;
  CalibrationWindows windows_;
  std::optional<BlockRunner> runner_;
  std::vector<LayerReport> reports_;
};

class MemoryStore final : public BlockStore {
 public:
  void put_ends(const ChangedEnds& ends) override { ends_ = ends; }
  std::optional<CompressedBlock> finished(std::int64_t) override { return std::nullopt; }
  void put(std::int64_t, const CompressedBlock& block) override { blocks_.push_back(block); }
  const std::vector<CompressedBlock>& blocks() const { return blocks_; }
  const std::optional<ChangedEnds>& ends() const { return ends_; }

 private:
  std::optional<ChangedEnds> ends_;
  std::vector<CompressedBlock> blocks_;
};

class FolderStore final : public BlockStore {
 public:
  FolderStore(CheckpointWriter& writer, const std::map<std::string, formats::Scheme>& schemes)
      : writer_(writer), schemes_(schemes) {}
  void put_ends(const ChangedEnds& ends) override { writer_.set_ends(ends); }
  std::optional<CompressedBlock> finished(std::int64_t block) override {
    return writer_.finished_block(block, schemes_);
  }
  void put(std::int64_t block, const CompressedBlock& compressed) override {
    writer_.write_block(block, compressed);
  }

 private:
  CheckpointWriter& writer_;
  const std::map<std::string, formats::Scheme>& schemes_;
};

// Everything that decides the output bytes.
core::Json job_of(const models::Model& model, const Recipe& recipe,
                  const PipelineOptions& options) {
  core::Json texts = core::Json::array();
  for (const auto& path : options.calibration.texts) {
    texts.push_back({std::filesystem::absolute(path).string(), std::filesystem::file_size(path)});
  }
  return {{"format_version", models::kCheckpointVersion},
          {"source", std::filesystem::absolute(model.path).string()},
          {"source_bytes", models::total_weight_bytes(model.decoder)},
          {"recipe", to_json(recipe)},
          {"calibration",
           {{"texts", std::move(texts)},
            {"samples", options.calibration.samples},
            {"seq_len", options.calibration.seq_len},
            {"seed", options.calibration.seed}}}};
}

void require_plain(const models::Model& model) {
  core::require(model.compression.schemes.empty(), ErrorKind::kUsage,
                "{} is already compressed ({}); start from the original model", model.path.string(),
                core::printable(model.compression.recipe));
}

}  // namespace

std::vector<LayerReport> run_recipe(const models::Model& model, const Recipe& recipe,
                                    const PipelineOptions& options, BlockStore& store,
                                    core::ProgressSink& progress) {
  require_plain(model);
  return Pipeline(model, recipe, options, store, progress).run(recipe.name);
}

void quantize_model(const models::Model& model, const Recipe& recipe,
                    const std::filesystem::path& target, const PipelineOptions& options,
                    bool resume, core::ProgressSink& progress) {
  require_plain(model);
  const auto schemes = layer_schemes(model.decoder, recipe);
  CheckpointWriter writer(model, target, job_of(model, recipe, options), resume);
  FolderStore store(writer, schemes);
  run_recipe(model, recipe, options, store, progress);
  writer.commit(recipe.name, schemes);
}

Quantized quantize_in_memory(const models::Model& model, const Recipe& recipe,
                             const PipelineOptions& options, core::ProgressSink& progress) {
  MemoryStore store;
  std::vector<LayerReport> layers = run_recipe(model, recipe, options, store, progress);
  auto result = std::make_shared<models::Model>(model);
  result->compression.recipe = recipe.name;
  result->compression.schemes = layer_schemes(model.decoder, recipe);
  if (store.ends()) {
    result->decoder = with_ends(model.decoder, *store.ends());
    result->config_json["tie_word_embeddings"] = false;
  }
  for (std::size_t i = 0; i < store.blocks().size(); ++i) {
    Block& block = result->decoder.blocks[i];
    block = apply_compressed(block, store.blocks()[i]);
  }
  return {std::move(result), std::move(layers)};
}

}  // namespace nibble::compress
