#include "eval/glue/glue_task.h"

#include <algorithm>

#include "core/error.h"

namespace nibble::eval {
namespace {

// "Not-Entailment" and "not entailment" are "not_entailment".
std::string plain_name(std::string_view label) {
  std::string name(label);
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
    c = c == '-' || c == ' ' ? '_' : c;
  }
  return name;
}

}  // namespace

std::string_view to_string(GlueMetric metric) {
  switch (metric) {
    case GlueMetric::kAccuracy:
      return "acc";
    case GlueMetric::kF1:
      return "f1";
    case GlueMetric::kMatthews:
      return "mcc";
    case GlueMetric::kPearson:
      return "pearson";
    case GlueMetric::kSpearman:
      return "spearman";
  }
  return "";
}

const std::vector<GlueTask>& all_glue_tasks() {
  using enum GlueMetric;
  using Names = std::vector<std::string_view>;
  const std::vector<GlueMetric> accuracy = {kAccuracy};
  const std::vector<GlueMetric> accuracy_f1 = {kAccuracy, kF1};
  const Names first = {"sentence1", "premise", "#1 String"};
  const Names second = {"sentence2", "hypothesis", "#2 String"};
  const Names label = {"label", "gold_label", "Quality", "is_duplicate", "score"};
  const Names nli = {"entailment", "neutral", "contradiction"};
  const Names entails = {"entailment", "not_entailment"};
  const Names acceptable = {"unacceptable", "acceptable"};
  const Names cola = {"source", "label", "mark", "sentence"};
  const Names sentence = {"sentence"};
  const Names sentiment = {"negative", "positive"};
  const Names equivalent = {"not_equivalent", "equivalent"};
  const Names duplicate = {"not_duplicate", "duplicate"};
  const Names entailed = {"not_entailment", "entailment"};
  static const std::vector<GlueTask> tasks = {
      {"cola", "CoLA/dev.tsv", sentence, {}, label, acceptable, {kMatthews, kAccuracy}, cola},
      {"sst2", "SST-2/dev.tsv", sentence, {}, label, sentiment, accuracy, {}},
      {"mrpc", "MRPC/dev.tsv", first, second, label, equivalent, accuracy_f1, {}},
      {"stsb", "STS-B/dev.tsv", first, second, label, {}, {kPearson, kSpearman}, {}},
      {"qqp", "QQP/dev.tsv", {"question1"}, {"question2"}, label, duplicate, accuracy_f1, {}},
      {"mnli", "MNLI/dev_matched.tsv", first, second, label, nli, accuracy, {}},
      {"mnli_mismatch", "MNLI/dev_mismatched.tsv", first, second, label, nli, accuracy, {}},
      {"qnli", "QNLI/dev.tsv", {"question"}, sentence, label, entails, accuracy, {}},
      {"rte", "RTE/dev.tsv", first, second, label, entails, accuracy, {}},
      {"wnli", "WNLI/dev.tsv", first, second, label, entailed, accuracy, {}},
  };
  return tasks;
}

const GlueTask* find_glue_task(std::string_view name) {
  for (const GlueTask& task : all_glue_tasks()) {
    if (task.name == name) {
      return &task;
    }
  }
  return nullptr;
}

std::string glue_task_names() {
  std::string names;
  for (const GlueTask& task : all_glue_tasks()) {
    names += names.empty() ? "" : ", ";
    names += task.name;
  }
  return names;
}

ClassOrder order_classes(const GlueTask& task, const std::vector<std::string>& labels) {
  ClassOrder order;
  std::size_t named = 0;
  for (const std::string& label : labels) {
    const auto at = std::find(task.classes.begin(), task.classes.end(), plain_name(label));
    const bool known = at != task.classes.end();
    order.classes.push_back(known ? static_cast<std::int32_t>(at - task.classes.begin()) : -1);
    named += known ? 1 : 0;
  }
  order.by_name = named == task.classes.size();
  if (!order.by_name) {
    core::require(labels.size() == task.classes.size(), core::ErrorKind::kUsage,
                  "the model has {} labels, but {} has {} classes", labels.size(), task.name,
                  task.classes.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
      order.classes[i] = static_cast<std::int32_t>(i);
    }
  }
  return order;
}

}  // namespace nibble::eval
