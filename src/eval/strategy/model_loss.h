#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "eval/analysis/analysis.h"
#include "eval/glue/glue_file.h"
#include "models/model.h"

namespace nibble::eval {

/// How much worse a model is than the float one that it was made of.
class ModelLoss {
 public:
  virtual ~ModelLoss() = default;
  /// What is measured: "sst2 acc", "nats for each token".
  virtual std::string name() const = 0;
  /// 0 of the float model itself; above 0 is worse.
  virtual double of(const std::shared_ptr<const models::Model>& model) = 0;
};

/// Items of a task of GLUE; `file` names them in errors.
struct GlueItems {
  const GlueTask* task = nullptr;
  std::string file;
  std::vector<GlueItem> items;
};

/// What the first measure of a task falls by. Throws as run_glue.
std::unique_ptr<ModelLoss> task_loss(const std::shared_ptr<const models::Model>& original,
                                     GlueItems items, const engine::RunnerOptions& runner);

/// What the mean negative log-likelihood of a text's tokens rises by, in nats, in windows as long
/// as the model was made for. Throws as measure_perplexity.
std::unique_ptr<ModelLoss> text_loss(const std::shared_ptr<const models::Model>& original,
                                     std::vector<std::int32_t> tokens,
                                     const engine::RunnerOptions& runner);

/// What the mean negative log-likelihood of targets' tokens rises by, in nats, over the pairs of an
/// encoder-decoder (lines_of()). Throws as engine::make_text_to_text and its score().
std::unique_ptr<ModelLoss> pairs_loss(const std::shared_ptr<const models::Model>& original,
                                      std::vector<AnalysisText> pairs,
                                      const engine::RunnerOptions& runner);

/// 1 minus the cosine between the outputs for `batch` texts of `seq` random tokens: the logits, or
/// the states of an encoder.
std::unique_ptr<ModelLoss> output_loss(const std::shared_ptr<const models::Model>& original,
                                       std::int64_t batch, std::int64_t seq,
                                       const engine::RunnerOptions& runner);

}  // namespace nibble::eval
