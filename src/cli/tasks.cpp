#include <algorithm>

#include "cli/commands.h"
#include "cli/glue_tasks.h"
#include "cli/option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/seq2seq_tasks.h"
#include "cli/strategy_options.h"
#include "cli/terminal_progress.h"
#include "cli/text_lines.h"
#include "cli/writing_arguments.h"
#include "core/json.h"
#include "eval/tasks/run_task.h"
#include "report/text_table.h"

namespace nibble::cli {
namespace {

std::string show(const std::optional<eval::Estimate>& estimate, int digits) {
  return estimate ? fmt::format("{:.{}f} +- {:.{}f}", estimate->value, digits,
                                estimate->standard_error, digits)
                  : "";
}

class Tasks final : public ModelCommand {
 public:
  void add_model_options(CLI::App& app) override {
    const Option names = add_option(app, "--task", names_,
                                    "Tasks, separated by commas, or all: " + eval::task_names() +
                                        "; or, for encoders, of GLUE: " + eval::glue_task_names())
                             ->delimiter(',');
    add_option(app, "--seq2seq", pairs_,
               "For encoder-decoders: a file of texts and what may be written for them "
               "(.tsv, .jsonl, .json)")
        ->excludes(names);
    add_option(app, "-n,--max-tokens", max_tokens_,
               "With --seq2seq: tokens to write at the most (default: what the model says)")
        ->positive();
    add_option(app, "-o,--output", output_, "With --seq2seq: also write the texts to a file");
    writing_.add(app);
    add_option(app, "--data", data_, "Folder of the tasks' files; of GLUE also one .tsv file")
        ->capture_default_str();
    add_option(app, "--limit", limit_, "Score only the first items of each file")->positive();
    add_max_length(app, max_length_);
    lora_.add(app);
    strategy_.add(app);
    device_.add(app);
    device_.add_packed(app);
  }

  void run() override {
    core::require(names_.empty() != pairs_.empty(), core::ErrorKind::kUsage,
                  "say what to measure: --task A,B or --seq2seq FILE");
    if (!pairs_.empty()) {
      run_seq2seq();
      return;
    }
    writing_.refuse("for --seq2seq; leave it out");
    core::require(max_tokens_ == 0 && output_.empty(), core::ErrorKind::kUsage,
                  "--max-tokens and --output are for --seq2seq; leave them out");
    const auto glue = chosen_glue_tasks(names_);
    const std::vector<const eval::Task*> tasks =
        glue.empty() ? chosen() : std::vector<const eval::Task*>();
    core::require(max_length_ == 0 || !glue.empty(), core::ErrorKind::kUsage,
                  "--max-length is for tasks of GLUE and --seq2seq; leave it out");
    const engine::RunnerOptions runner_options = device_.runner(model_);
    if (!glue.empty()) {
      run_glue_tasks({model_, glue, data_, limit_, max_length_, common_.json, common_.quiet},
                     strategy_.open(model_, lora_, runner_options, common_.quiet), runner_options);
      return;
    }
    TerminalProgress progress(common_.quiet);
    const auto model = strategy_.open(model_, lora_, runner_options, common_.quiet);
    const auto runner = engine::make_runner(model, runner_options);
    std::vector<eval::TaskScore> scores;
    for (const eval::Task* task : tasks) {
      scores.push_back(eval::run_task(*runner, *model, *task, data_, limit_, progress));
    }
    common_.json ? print_json(*model, scores) : write_result(report::to_text(table(scores)));
  }

 private:
  void run_seq2seq() const {
    const engine::RunnerOptions runner_options = device_.runner(model_);
    const auto model = strategy_.open(model_, lora_, runner_options, common_.quiet);
    const auto writer = engine::make_text_to_text(model, runner_options);
    run_seq2seq_tasks({model_, pairs_, limit_, max_length_, output_, common_.json, common_.quiet},
                      *model, *writer,
                      {writing_.applied_to(*model, max_tokens_), writing_.source_language(), 0});
  }

  // In the order of the call, each once.
  std::vector<const eval::Task*> chosen() const {
    std::vector<const eval::Task*> tasks;
    const auto add = [&](const eval::Task& task) {
      if (std::find(tasks.begin(), tasks.end(), &task) == tasks.end()) {
        tasks.push_back(&task);
      }
    };
    for (const std::string& name : names_) {
      if (name != "all") {
        add(eval::find_task(name));
        continue;
      }
      for (const eval::Task& task : eval::all_tasks()) {
        add(task);
      }
    }
    return tasks;
  }

  static report::Table table(const std::vector<eval::TaskScore>& scores) {
    report::Table table;
    table.columns = {"task", "n", "acc", "acc_norm", "perplexity", "s"};
    for (const eval::TaskScore& score : scores) {
      table.rows.push_back({score.name, std::to_string(score.items), show(score.accuracy, 4),
                            show(score.normalized_accuracy, 4), show(score.perplexity, 2),
                            fmt::format("{:.1f}", score.seconds)});
    }
    return table;
  }

  static core::Json json_of(const eval::TaskScore& score) {
    core::Json json = {{"task", score.name},
                       {"n", score.items},
                       {"acc", score.accuracy.value},
                       {"acc_stderr", score.accuracy.standard_error},
                       {"seconds", score.seconds}};
    if (score.normalized_accuracy) {
      json["acc_norm"] = score.normalized_accuracy->value;
      json["acc_norm_stderr"] = score.normalized_accuracy->standard_error;
    }
    if (score.perplexity) {
      json["perplexity"] = score.perplexity->value;
      json["perplexity_stderr"] = score.perplexity->standard_error;
    }
    for (const eval::TaskScore& part : score.parts) {
      json["parts"].push_back(json_of(part));
    }
    return json;
  }

  void print_json(const models::Model& model, const std::vector<eval::TaskScore>& scores) const {
    core::Json list = core::Json::array();
    for (const eval::TaskScore& score : scores) {
      list.push_back(json_of(score));
    }
    const core::Json json = {
        {"model", model_},
        {"recipe", model.compression.recipe.empty() ? "none" : model.compression.recipe},
        {"limit", limit_},
        {"tasks", std::move(list)}};
    print_result("{}\n", json.dump());
  }

  DeviceOptions device_ = DeviceOptions::exact();
  LoraOptions lora_;
  StrategyOptions strategy_;
  WritingArguments writing_;
  std::vector<std::string> names_;
  std::string pairs_;
  std::string output_;
  std::int64_t max_tokens_ = 0;
  std::string data_ = "tasks";
  std::int64_t limit_ = 0;
  std::int64_t max_length_ = 0;
};

}  // namespace

std::unique_ptr<Command> tasks_command() {
  return std::make_unique<Tasks>();
}

}  // namespace nibble::cli
