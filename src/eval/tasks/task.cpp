#include "eval/tasks/task.h"

#include "characters/case_mapping.h"
#include "core/error.h"
#include "core/nearest_name.h"
#include "eval/glue/glue_task.h"

namespace nibble::eval {
namespace {

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

std::string as_it_is(std::string_view query) {
  return std::string(query);
}

std::string with_answer(std::string_view query) {
  return std::string(without_suffix(query, "\n")) + "\nAnswer:";
}

// BoolQ: the passage without a heading.
std::string passage_with_answer(std::string_view query) {
  constexpr std::string_view kHeading = "Passage: ";
  return with_answer(query.starts_with(kHeading) ? query.substr(kHeading.size()) : query);
}

// COPA: "The bulb went out, because" without its comma.
std::string without_comma(std::string_view query) {
  for (const std::string_view connector : {" because", " therefore"}) {
    const std::string_view premise = without_suffix(query, connector);
    if (premise.size() < query.size()) {
      return std::string(without_suffix(premise, ",")) + std::string(connector);
    }
  }
  return std::string(query);
}

// HellaSwag: the sentence that is to be completed begins with a capital letter. The data have it in
// lower case behind the end of the sentence before.
std::string with_capitalized_end(std::string_view query) {
  for (std::size_t at = query.rfind(' '); at != std::string_view::npos && at > 0;
       at = query.rfind(' ', at - 1)) {
    if (std::string_view(".?!").find(query[at - 1]) != std::string_view::npos) {
      return std::string(query.substr(0, at + 1)) +
             characters::to_capitalized(query.substr(at + 1));
    }
  }
  return std::string(query);
}

}  // namespace

const std::vector<Task>& all_tasks() {
  using enum ItemLayout;
  using enum TaskMetrics;
  static const std::vector<Task> tasks = {
      {"arc_easy", "arc_easy.jsonl", kChoices, kNormalizedAccuracy, with_answer},
      {"arc_challenge", "arc_challenge.jsonl", kChoices, kNormalizedAccuracy, with_answer},
      {"piqa", "piqa.jsonl", kChoices, kNormalizedAccuracy, with_answer},
      {"hellaswag", "hellaswag_val_1000.txt", kSixLines, kNormalizedAccuracy, with_capitalized_end},
      {"openbookqa", "openbook_qa.jsonl", kChoices, kNormalizedAccuracy, as_it_is},
      {"copa", "copa.jsonl", kChoices, kAccuracy, without_comma,
       "  "},  // two spaces in lm-eval too
      {"boolq", "boolq.jsonl", kChoices, kAccuracy, passage_with_answer},
      {"winogrande", "winogrande.jsonl", kContextOptions, kAccuracy, as_it_is},
      {"lambada_openai", "lambada_openai.jsonl", kContinuation, kLastWord, as_it_is},
      {"blimp", "blimp", kSentencePair, kAccuracy, as_it_is},
  };
  return tasks;
}

const Task& find_task(std::string_view name) {
  for (const Task& task : all_tasks()) {
    if (task.name == name) {
      return task;
    }
  }
  std::vector<std::string> names;
  for (const Task& task : all_tasks()) {
    names.emplace_back(task.name);
  }
  for (const GlueTask& task : all_glue_tasks()) {
    names.emplace_back(task.name);
  }
  core::fail(core::ErrorKind::kUsage, "task '{}' is not known{} (tasks are {}; of GLUE {})",
             core::printable(name), core::suggestion(name, names), task_names(), glue_task_names());
}

std::string task_names() {
  std::string names;
  for (const Task& task : all_tasks()) {
    names += names.empty() ? "" : ", ";
    names += task.name;
  }
  return names;
}

}  // namespace nibble::eval
