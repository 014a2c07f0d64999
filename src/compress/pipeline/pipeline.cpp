#include "compress/pipeline/pipeline.h"

#include "compress/allocation/allocate_formats.h"
#include "compress/pipeline/checkpoint.h"
#include "compress/pipeline/model_card.h"
#include "compress/pipeline/quantize_job.h"
#include "compress/pipeline/recipe_passes.h"
#include "compress/pipeline/recipe_run.h"
#include "compress/shortgpt/remove_blocks.h"
#include "core/error.h"
#include "core/json.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;

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

// Of models with an encoder the blocks are compressed.
void require_serves_encoder(const models::Model& model, const Recipe& recipe,
                            const PipelineOptions& options) {
  if (!model.network.has_encoder()) {
    return;
  }
  core::require(!recipe.output, ErrorKind::kUsage,
                "recipe '{}': {} has an encoder; the ends of such a model stay as they are, the "
                "output layer too",
                core::printable(recipe.name), io::shown(model.path));
  core::require(!options.adapter, ErrorKind::kUsage,
                "{} has an encoder; adapters are merged into decoders only", io::shown(model.path));
}

CalibrationOptions calibration_of(const PipelineOptions& options) {
  CalibrationOptions calibration = options.calibration;
  calibration.threads = options.threads;
  return calibration;
}

// The model that is compressed where the recipe removes blocks, else null.
std::shared_ptr<const models::Model> shortened(const models::Model& model, const Recipe& recipe,
                                               const PipelineOptions& options,
                                               core::ProgressSink& progress) {
  const std::int64_t blocks = RecipePasses(recipe).removed_blocks();
  if (blocks == 0) {
    return nullptr;
  }
  core::require(!options.adapter, ErrorKind::kUsage,
                "recipe '{}': an adapter was trained with all blocks; merge it first (--merge-lora "
                "with the recipe f16)",
                core::printable(recipe.name));
  if (options.place.on_gpu()) {
    progress.message("the influence of blocks is measured on the CPU");
  }
  return without_least_influential(model, blocks, calibration_of(options), progress);
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
  return allocate_formats(model, recipe, calibration_of(options), progress);
}

models::CompressionInfo compression_of(const Recipe& recipe,
                                       std::map<std::string, formats::Scheme> schemes) {
  models::CompressionInfo info;
  info.recipe = recipe.name;
  info.schemes = std::move(schemes);
  info.keeps_inputs = keeps_inputs(recipe);
  info.tuned = recipe.tuned;
  return info;
}

}  // namespace

std::vector<LayerReport> run_recipe(const models::Model& model, const Recipe& recipe,
                                    const PipelineOptions& options, BlockStore& store,
                                    core::ProgressSink& progress) {
  require_plain(model, options);
  require_serves_encoder(model, recipe, options);
  return RecipeRun(model, recipe, options, store, progress).run();
}

void quantize_model(const models::Model& original, const Recipe& wanted,
                    const std::filesystem::path& target, const PipelineOptions& options,
                    bool resume, core::ProgressSink& progress) {
  require_plain(original, options);
  require_serves_encoder(original, wanted, options);
  const auto fewer_blocks = shortened(original, wanted, options, progress);
  const models::Model& model = fewer_blocks ? *fewer_blocks : original;
  const Recipe recipe = allocated(model, wanted, options, progress);
  const auto schemes = layer_schemes(model.network, recipe);
  if (options.adapter) {
    (void)options.adapter->pairs_for(model.network);  // throws before a folder is made
  }
  CheckpointWriter writer(model, target, job_of(model, recipe, options), recipe.output, resume);
  FolderStore store(writer, schemes);
  PipelineOptions in_folder = options;
  in_folder.scratch = writer.folder();
  run_recipe(model, recipe, in_folder, store, progress);
  writer.complete(compression_of(recipe, schemes));
  writer.write_file(kModelCardFile,
                    model_card(original, *models::open_model(writer.folder()), recipe, options));
  writer.commit();
}

Quantized quantize_in_memory(const models::Model& original, const Recipe& wanted,
                             const PipelineOptions& options, core::ProgressSink& progress) {
  require_plain(original, options);
  require_serves_encoder(original, wanted, options);
  const auto fewer_blocks = shortened(original, wanted, options, progress);
  const models::Model& model = fewer_blocks ? *fewer_blocks : original;
  const Recipe recipe = allocated(model, wanted, options, progress);
  MemoryStore store;
  std::vector<LayerReport> layers = run_recipe(model, recipe, options, store, progress);
  auto result = std::make_shared<models::Model>(model);
  result->compression = compression_of(recipe, layer_schemes(model.network, recipe));
  result->network = store.network(model.network);
  if (model.network.config.tied_output && !result->network.config.tied_output) {
    (*result->config_json)["tie_word_embeddings"] = false;
  }
  return {std::move(result), std::move(layers)};
}

}  // namespace nibble::compress
