#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/progress.h"
#include "engine/classification.h"
#include "engine/text_batches.h"
#include "eval/glue/glue_file.h"

namespace nibble::eval {

struct GlueScore {
  std::string name;
  std::int64_t items = 0;
  std::vector<std::pair<GlueMetric, double>> metrics;
  bool labels_by_name = false;  // ClassOrder::by_name
  std::int64_t truncated = 0;   // items that were too long
  double seconds = 0;
};

/// The measures of a task, of one row of logits for each item. Throws kUsage when the head does not
/// fit the task (order_classes()).
GlueScore score_glue(const GlueTask& task, std::span<const GlueItem> items,
                     const models::Classifier& head, std::span<const std::vector<float>> logits);

/// Classifies the items as `options` (engine::input_options()) say, and measures. `file` names them
/// in errors. Throws as engine::classifier_of, score_glue, engine::for_each_batch and the encoder;
/// kFailed for logits that are not finite.
GlueScore run_glue(engine::Encoder& encoder, const models::Model& model, const GlueTask& task,
                   std::span<const GlueItem> items, const engine::InputOptions& options,
                   const std::string& file, core::ProgressSink& progress);

}  // namespace nibble::eval
