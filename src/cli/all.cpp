#include "cli/commands.h"

namespace nibble::cli {

std::vector<std::unique_ptr<Command>> commands() {
  std::vector<std::unique_ptr<Command>> all;
  all.push_back(quantize_command());
  all.push_back(pack_command());
  all.push_back(eval_command());
  all.push_back(tasks_command());
  all.push_back(compare_command());
  all.push_back(run_command());
  all.push_back(chat_command());
  all.push_back(serve_command());
  all.push_back(bench_command());
  all.push_back(bench_serve_command());
  all.push_back(tune_kernels_command());
  all.push_back(explain_command());
  all.push_back(inspect_command());
  return all;
}

}  // namespace nibble::cli
