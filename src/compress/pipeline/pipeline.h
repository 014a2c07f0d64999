#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compress/backend/backend.h"
#include "compress/calibration/calibration.h"
#include "compress/pipeline/block_store.h"
#include "compress/pipeline/measured_damage.h"
#include "compress/recipe/layer_schemes.h"
#include "compress/recipe/recipe.h"
#include "core/progress.h"
#include "device/place.h"
#include "models/lora/lora_adapter.h"
#include "models/model.h"

namespace nibble::compress {

struct PipelineOptions {
  CalibrationOptions calibration;
  device::Place place;  // where a GPU has a form of the work; what runs where is said
  int threads = 0;
  std::int64_t memory = 0;        // bytes; when the hidden states of the calibration windows do not
                                  // fit beside the work on a block they go to a file; 0: never
  std::filesystem::path scratch;  // folder of that file; empty: the system's temporary folder
  std::shared_ptr<const models::LoraAdapter> adapter;  // merged into the weights of each block
                                                       // before it is compressed; may be null
  std::optional<MeasuredDamage> damage;  // of this model by this recipe, for the model card
};

/// What became of one layer.
struct LayerReport {
  std::string name;
  double relative_error = 0;  // |W - W'|^2 / |W|^2, W after exact transformations (scales)
  std::string note;
};

/// Runs a recipe without a target, on a model that has lost the blocks it removes, block by block:
/// statistics of the block's inputs on the calibration windows (once for all passes, only when a
/// pass needs them), the passes, then the block's outputs with its compressed weights as inputs of
/// the next one; at last the output layer, where the recipe rounds it, behind the compressed blocks
/// and the final norm. Only one block's float weights are in memory at a time.
std::vector<LayerReport> run_recipe(const models::Model& model, const Recipe& recipe,
                                    const PipelineOptions& options, BlockStore& store,
                                    core::ProgressSink& progress);

/// quantize: removes the blocks that the recipe wants removed, meets its target, if it has one, and
/// makes of a model folder a compressed one. `resume` goes on with an interrupted job.
void quantize_model(const models::Model& original, const Recipe& recipe,
                    const std::filesystem::path& target, const PipelineOptions& options,
                    bool resume, core::ProgressSink& progress);

/// What became of a model in memory.
struct Quantized {
  std::shared_ptr<models::Model> model;  // shares everything but the compressed layers
  std::vector<LayerReport> layers;       // in the order of the model
};

/// The same in memory.
Quantized quantize_in_memory(const models::Model& original, const Recipe& recipe,
                             const PipelineOptions& options, core::ProgressSink& progress);

}  // namespace nibble::compress
