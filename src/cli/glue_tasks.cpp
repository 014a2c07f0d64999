#include "cli/glue_tasks.h"

#include <algorithm>

#include "cli/output.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "core/error.h"
#include "core/json.h"
#include "eval/metrics/sample_statistics.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

using eval::GlueMetric;
using eval::GlueScore;

// Items and file of a task.
struct TaskData {
  const eval::GlueTask* task;
  std::string file;
  std::vector<eval::GlueItem> items;
};

// All files are read before the first is scored.
std::vector<TaskData> read_data(const GlueCall& call) {
  std::vector<TaskData> data;
  for (const eval::GlueTask* task : call.tasks) {
    const auto file = eval::find_glue_file(call.data, *task);
    data.push_back({task, fmt::format("{}", core::printable(file.string())),
                    eval::read_glue_items(file, *task, call.limit)});
  }
  return data;
}

report::Table table(const std::vector<GlueScore>& scores) {
  report::Table table;
  table.columns = {"task", "n"};
  std::vector<GlueMetric> metrics;
  for (const GlueScore& score : scores) {
    for (const auto& [metric, value] : score.metrics) {
      if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) {
        metrics.push_back(metric);
        table.columns.emplace_back(to_string(metric));
      }
    }
  }
  table.columns.emplace_back("s");
  for (const GlueScore& score : scores) {
    std::vector<std::string> row = {score.name, std::to_string(score.items)};
    for (const GlueMetric metric : metrics) {
      const auto at = std::find_if(score.metrics.begin(), score.metrics.end(),
                                   [&](const auto& each) { return each.first == metric; });
      row.push_back(at == score.metrics.end() ? "" : fmt::format("{:.4f}", at->second));
    }
    row.push_back(fmt::format("{:.1f}", score.seconds));
    table.rows.push_back(std::move(row));
  }
  return table;
}

core::Json json_of(const eval::GlueTask& task, const GlueScore& score) {
  core::Json json = {{"task", score.name},
                     {"n", score.items},
                     {"truncated", score.truncated},
                     {"seconds", score.seconds}};
  if (!task.classes.empty()) {
    json["classes"] = score.labels_by_name ? "named" : "ordered";
  }
  for (const auto& [metric, value] : score.metrics) {
    json[std::string(to_string(metric))] = value;
    if (metric == GlueMetric::kAccuracy) {
      json["acc_stderr"] = eval::share_standard_error(value, score.items);
    }
  }
  return json;
}

void print(const GlueCall& call, const models::Model& model, const std::vector<GlueScore>& scores) {
  if (!call.json) {
    write_result(report::to_text(table(scores)));
    return;
  }
  core::Json list = core::Json::array();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    list.push_back(json_of(*call.tasks[i], scores[i]));
  }
  const core::Json json = {
      {"model", call.model},
      {"recipe", model.compression.recipe.empty() ? "none" : model.compression.recipe},
      {"limit", call.limit},
      {"tasks", std::move(list)}};
  print_result("{}\n", json.dump());
}

}  // namespace

std::vector<const eval::GlueTask*> chosen_glue_tasks(const std::vector<std::string>& names) {
  std::vector<const eval::GlueTask*> tasks;
  std::size_t known = 0;
  for (const std::string& name : names) {
    const eval::GlueTask* task = eval::find_glue_task(name);
    known += task == nullptr ? 0 : 1;
    if (task != nullptr && std::find(tasks.begin(), tasks.end(), task) == tasks.end()) {
      tasks.push_back(task);
    }
  }
  core::require(known == 0 || known == names.size(), core::ErrorKind::kUsage,
                "tasks of GLUE ({}) need an encoder and the others a decoder: call them apart",
                core::lazily([] { return eval::glue_task_names(); }));
  return tasks;
}

void run_glue_tasks(const GlueCall& call, const std::shared_ptr<const models::Model>& model,
                    const engine::RunnerOptions& options) {
  core::require(engine::is_encoder(*model), core::ErrorKind::kUsage,
                "{} is a task for encoders with a classification head (BERT), which {} is not",
                call.tasks.front()->name, core::printable(call.model));
  TerminalProgress progress(call.quiet);
  const std::vector<TaskData> data = read_data(call);
  const auto encoder = engine::make_encoder(model, options);
  engine::InputOptions inputs = engine::input_options(*model, *encoder);
  shorten(inputs, call.max_length);
  std::vector<GlueScore> scores;
  for (const TaskData& each : data) {
    scores.push_back(
        eval::run_glue(*encoder, *model, *each.task, each.items, inputs, each.file, progress));
    note_truncated(scores.back().truncated, each.items.size(), inputs.most_tokens, call.quiet);
  }
  print(call, *model, scores);
}

}  // namespace nibble::cli
