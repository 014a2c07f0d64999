#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "eval/glue/run_glue.h"

namespace nibble::cli {

/// What `nibble tasks` was asked for.
struct GlueCall {
  std::string model;
  std::vector<const eval::GlueTask*> tasks;
  std::string data;
  std::int64_t limit = 0;
  std::int64_t max_length = 0;  // tokens of an item; 0: what the model takes
  bool json = false;
  bool quiet = false;
};

/// The tasks of GLUE among `names`, in their order, each once; none where there are none. Throws
/// kUsage where some are and some are not.
std::vector<const eval::GlueTask*> chosen_glue_tasks(const std::vector<std::string>& names);

/// Scores the tasks with an encoder and prints a table or JSON. `data` is a folder, or a file where
/// there is one task. Throws kUsage for models without a classification head; as read_glue_items
/// and run_glue.
void run_glue_tasks(const GlueCall& call, const std::shared_ptr<const models::Model>& model,
                    const engine::RunnerOptions& options);

}  // namespace nibble::cli
