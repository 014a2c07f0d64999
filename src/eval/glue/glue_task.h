#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// A measure of a task of GLUE.
enum class GlueMetric { kAccuracy, kF1, kMatthews, kPearson, kSpearman };

/// "acc", "f1", "mcc", "pearson", "spearman".
std::string_view to_string(GlueMetric metric);

/// A task of GLUE (arXiv 1804.07461) is data: to add one, add an entry to glue_task.cpp. Columns
/// have the names that GLUE's own files give them, or those of Hugging Face's data set `glue`.
struct GlueTask {
  std::string_view name;                 // as lm-evaluation-harness calls it: "sst2"
  std::string_view file;                 // in GLUE's folder
  std::vector<std::string_view> first;   // names that the column of the text may have
  std::vector<std::string_view> second;  // of the other text; empty: there is none
  std::vector<std::string_view> label;
  std::vector<std::string_view> classes;  // in the order of Hugging Face; empty: a number
  std::vector<GlueMetric> metrics;
  std::vector<std::string_view> columns;  // of files without a header; empty: there are none
};

/// Every task that is read from GLUE's .tsv files.
const std::vector<GlueTask>& all_glue_tasks();

/// Null where no task of GLUE has this name.
const GlueTask* find_glue_task(std::string_view name);

/// "cola, sst2, ...".
std::string glue_task_names();

/// What each output of a classification head means to a task.
struct ClassOrder {
  std::vector<std::int32_t> classes;  // of each output; -1: none of the task's
  bool by_name = false;               // the labels name the classes, else their order counts
};

/// By the labels (id2label) where they name all classes of the task, whatever their case and with -
/// or _ or spaces between words; else in the task's order. Throws kUsage when their number does not
/// fit.
ClassOrder order_classes(const GlueTask& task, const std::vector<std::string>& labels);

}  // namespace nibble::eval
