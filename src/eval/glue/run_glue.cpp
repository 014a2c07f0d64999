#include "eval/glue/run_glue.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "eval/metrics/classification.h"
#include "eval/metrics/correlation.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using models::Classifier;
using models::Problem;

// Throws where the outputs of the head are not what the task asks for.
void check_head(const GlueTask& task, const Classifier& head) {
  const bool value = head.problem == Problem::kRegression;
  core::require(head.problem != Problem::kTokenLabels, ErrorKind::kUsage,
                "the model labels tokens, but {} texts", task.name);
  core::require(value == task.classes.empty() && (!value || head.labels.size() == 1),
                ErrorKind::kUsage, "the model gives {}, but {} asks for {}",
                value ? "a number" : "classes", task.name,
                task.classes.empty() ? "a number" : "classes");
}

double measure_classes(GlueMetric metric, std::span<const std::int32_t> predicted,
                       std::span<const std::int32_t> gold) {
  switch (metric) {
    case GlueMetric::kF1:
      return f1(predicted, gold);
    case GlueMetric::kMatthews:
      return matthews_correlation(predicted, gold);
    default:
      return accuracy(predicted, gold);
  }
}

void score_classes(const GlueTask& task, std::span<const GlueItem> items, const Classifier& head,
                   std::span<const std::vector<float>> logits, GlueScore& score) {
  const ClassOrder order = order_classes(task, head.labels);
  score.labels_by_name = order.by_name;
  std::vector<std::int32_t> predicted;
  std::vector<std::int32_t> gold;
  for (std::size_t i = 0; i < items.size(); ++i) {
    predicted.push_back(order.classes[engine::best_label(logits[i])]);
    gold.push_back(items[i].gold);
  }
  for (const GlueMetric metric : task.metrics) {
    score.metrics.emplace_back(metric, measure_classes(metric, predicted, gold));
  }
}

void score_values(const GlueTask& task, std::span<const GlueItem> items,
                  std::span<const std::vector<float>> logits, GlueScore& score) {
  std::vector<double> predicted;
  std::vector<double> gold;
  for (std::size_t i = 0; i < items.size(); ++i) {
    predicted.push_back(logits[i].front());
    gold.push_back(items[i].value);
  }
  core::require(items.size() >= 2, ErrorKind::kUsage, "{} needs at least 2 items", task.name);
  for (const GlueMetric metric : task.metrics) {
    score.metrics.emplace_back(metric, metric == GlueMetric::kPearson
                                           ? pearson_correlation(predicted, gold)
                                           : spearman_correlation(predicted, gold));
  }
}

}  // namespace

GlueScore score_glue(const GlueTask& task, std::span<const GlueItem> items, const Classifier& head,
                     std::span<const std::vector<float>> logits) {
  check_head(task, head);
  GlueScore score;
  score.name = task.name;
  score.items = static_cast<std::int64_t>(items.size());
  if (task.classes.empty()) {
    score_values(task, items, logits, score);
  } else {
    score_classes(task, items, head, logits, score);
  }
  return score;
}

GlueScore run_glue(engine::Encoder& encoder, const models::Model& model, const GlueTask& task,
                   std::span<const GlueItem> items, const engine::InputOptions& options,
                   const std::string& file, core::ProgressSink& progress) {
  using Clock = std::chrono::steady_clock;
  const Classifier& head = engine::classifier_of(model);
  check_head(task, head);
  const auto start = Clock::now();
  std::vector<engine::InputText> texts;
  for (const GlueItem& item : items) {
    texts.push_back(
        {item.first, item.second ? std::optional<std::string_view>(*item.second) : std::nullopt});
  }
  std::vector<std::vector<float>> logits;
  progress.begin(task.name, static_cast<std::int64_t>(items.size()));
  const std::int64_t truncated = engine::for_each_batch(
      *model.tokenizer, texts, options,
      [&](std::size_t i) { return fmt::format("{}, line {}", file, items[i].line); },
      [&](std::size_t /*first*/, std::span<const text::ModelInput> /*inputs*/,
          std::span<const engine::EncoderText> batch) {
        const engine::EncoderRows rows = encoder.classify(batch);
        for (std::int64_t i = 0; i < rows.rows; ++i) {
          const std::span<const float> row = rows.row(i);
          logits.emplace_back(row.begin(), row.end());
        }
        progress.update(static_cast<std::int64_t>(logits.size()), "");
      });
  progress.end();
  for (const std::vector<float>& row : logits) {
    core::require(std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); }),
                  ErrorKind::kFailed,
                  "the model computed NaN or infinite logits; its weights may be damaged");
  }
  GlueScore score = score_glue(task, items, head, logits);
  score.truncated = truncated;
  score.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return score;
}

}  // namespace nibble::eval
