#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "core/progress.h"
#include "engine/runner.h"
#include "engine/strategy.h"
#include "eval/strategy/model_loss.h"
#include "models/model.h"

namespace nibble::eval {

struct StrategyOptions {
  engine::RunnerOptions runner;
  std::int64_t batch = 1;                   // texts of a step
  std::int64_t seq = 128;                   // tokens of each; 1: a decode step
  std::vector<formats::Scheme> candidates;  // beside float
  double max_loss = 0.01;
  std::filesystem::path times_folder;  // where times of a CPU's kernels are kept; empty: nowhere
};

/// A whole model, measured.
struct MeasuredModel {
  double microseconds = 0;  // of a step
  double loss = 0;
};

struct StrategyTuning {
  engine::PartOptions options;  // of each part the float one first
  bool by_kernel = true;        // their times are those of the part's layers; else of whole models
  engine::Strategy chosen;      // as predicted; all float: nothing better holds
  MeasuredModel original;
  MeasuredModel tuned;
  int tried = 0;  // strategies that were measured as whole models
};

/// Measures the time and the loss of each candidate in each part alone, and chooses: the first of
/// engine::rank_strategies() whose whole model loses at most max_loss and is faster than the
/// original. On a CPU times are those of the kernels of the part's layers, as `nibble explain
/// --measure` takes them; on a GPU those of whole models. An encoder-decoder reads and writes
/// (make_model_step). Throws kUsage for a compressed model, for a mixture of experts, and as
/// make_model_step() and ModelLoss.
StrategyTuning tune_strategy(const std::shared_ptr<const models::Model>& model, ModelLoss& loss,
                             const StrategyOptions& options, core::ProgressSink& progress);

}  // namespace nibble::eval
