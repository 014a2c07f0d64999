#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/pipeline/pipeline.h"
#include "eval/perplexity.h"
#include "eval/throughput.h"
#include "models/lora/lora_adapter.h"

namespace nibble::eval {

/// One line of the damage table: what a recipe costs and what it gives.
struct DamageRow {
  std::string recipe;  // "original" for the model as it is
  double perplexity = 0;
  double increase = 0;                 // perplexity over the original's, minus 1
  double increase_standard_error = 0;  // of the paired differences of log-perplexity, over windows
  Divergence divergence;               // from the original; the original's from itself is nothing
  double bits_per_weight = 0;          // of the blocks' linear layers
  std::int64_t weight_bytes = 0;       // of the whole model as stored
  std::int64_t peak_bytes = 0;         // held by the runner: weights, KV cache, activations
  std::optional<Speed> prefill;        // tokens per second, where the repeats are steady
  std::optional<Speed> decode;         // (is_steady)
  double quantize_seconds = 0;
  std::vector<compress::LayerReport> layers;  // in the order of the model
};

struct DamageOptions {
  engine::RunnerOptions runner;
  compress::PipelineOptions pipeline;
  /// Runs beside the original and beside every compressed model, its scale multiplied by
  /// adapter_factor; recipes calibrate and compress the model without it. May be null.
  std::shared_ptr<const models::LoraAdapter> adapter;
  float adapter_factor = 1.0f;
  PerplexityOptions perplexity;
  /// At least five repeats and half a second of each speed, so that it is seen how they differ.
  ThroughputOptions throughput = {.repeats = 5, .least_seconds = 0.5};
};

/// Measures the original, then every recipe, each compressed in memory. Throws kUsage, before
/// anything is measured, for a recipe beside whose models the adapter can't run.
std::vector<DamageRow> measure_damage(const std::shared_ptr<models::Model>& model,
                                      const std::vector<compress::Recipe>& recipes,
                                      std::span<const std::int32_t> tokens,
                                      const DamageOptions& options, core::ProgressSink& progress);

}  // namespace nibble::eval
