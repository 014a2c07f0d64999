#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/progress.h"
#include "engine/runner.h"
#include "eval/tasks/likelihood.h"
#include "eval/tasks/task.h"

namespace nibble::eval {

struct Estimate {
  double value = 0;
  double standard_error = 0;  // NaN for a single item
};

struct TaskScore {
  std::string name;
  std::int64_t items = 0;
  Estimate accuracy;
  std::optional<Estimate> normalized_accuracy;  // TaskMetrics::kNormalizedAccuracy
  std::optional<Estimate> perplexity;           // TaskMetrics::kLastWord
  std::vector<TaskScore> parts;                 // of a task with several files
  double seconds = 0;
};

/// The likelihoods of all choices of all items; done(items) is called as items are finished.
std::vector<std::vector<Likelihood>> score_items(engine::Runner& runner, const models::Model& model,
                                                 std::span<const TaskItem> items,
                                                 const std::function<void(std::int64_t)>& done);

/// acc: the choice of the largest log-likelihood is right; acc_norm: that of the largest
/// log-likelihood for each character. Standard errors: sample deviation / sqrt(items); that of a
/// perplexity exp(-m) is exp(-m) times the standard error of m (delta method).
TaskScore summarize(const Task& task, std::span<const TaskItem> items,
                    std::span<const std::vector<Likelihood>> likelihoods);

/// Several parts as one task: the mean of their accuracies, each part counting the same, with the
/// pooled standard error (lm-evaluation-harness, `pooled_sample_stderr`).
TaskScore summarize(const Task& task, std::vector<TaskScore> parts);

/// Reads the files of a task in `folder`, the first `limit` items of each (0: all), and scores
/// them. Throws as read_task_items and score_requests do.
TaskScore run_task(engine::Runner& runner, const models::Model& model, const Task& task,
                   const std::filesystem::path& folder, std::int64_t limit,
                   core::ProgressSink& progress);

}  // namespace nibble::eval
