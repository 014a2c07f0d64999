#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// A question to a model: how likely is `continuation` behind `context`?
struct LikelihoodRequest {
  std::string context;  // may be empty
  std::string continuation;
};

/// One item of a task.
struct TaskItem {
  std::string where;                         // "piqa.jsonl, line 12", for messages
  std::vector<LikelihoodRequest> requests;   // one for each choice
  std::vector<std::int64_t> choice_lengths;  // in characters, without the delimiter
  std::int64_t gold = 0;                     // the right choice
};

/// What the lines of a data file hold.
enum class ItemLayout {
  kChoices,         // JSON: query, choices, gold
  kContextOptions,  // JSON: context_options, continuation, gold; the choices are contexts
  kContinuation,    // JSON: context, continuation
  kSentencePair,    // JSON: sentence_good, sentence_bad
  kSixLines,        // plain text: query, number of the right choice, four choices
};

/// What is reported of a task.
enum class TaskMetrics {
  kAccuracy,            // share of items whose right choice is the most likely one
  kNormalizedAccuracy,  // and the same with log-likelihoods divided by the length of the choice
  kLastWord,            // share of items continued greedily, and perplexity of the continuation
};

/// A task is data: to add one, add an entry to task.cpp.
struct Task {
  std::string_view name;  // as lm-evaluation-harness calls it
  std::string_view file;  // in the data folder; of a folder every .jsonl file is a part of the task
  ItemLayout layout = ItemLayout::kChoices;
  TaskMetrics metrics = TaskMetrics::kAccuracy;
  std::string (*context)(std::string_view query);  // what the model reads before the continuation
  std::string_view delimiter = " ";                // stands before each continuation
};

/// Every task of this build. The prompts are those of EleutherAI's lm-evaluation-harness 0.4
/// (lm_eval/tasks), zero-shot.
const std::vector<Task>& all_tasks();

/// Throws kUsage, naming the known tasks.
const Task& find_task(std::string_view name);

/// "arc_easy, arc_challenge, ...".
std::string task_names();

}  // namespace nibble::eval
