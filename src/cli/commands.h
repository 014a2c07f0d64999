#pragma once

#include <memory>

#include "cli/command.h"

namespace nibble::cli {

std::unique_ptr<Command> quantize_command();
std::unique_ptr<Command> convert_command();
std::unique_ptr<Command> pack_command();
std::unique_ptr<Command> eval_command();
std::unique_ptr<Command> tasks_command();
std::unique_ptr<Command> compare_command();
std::unique_ptr<Command> run_command();
std::unique_ptr<Command> chat_command();
std::unique_ptr<Command> classify_command();
std::unique_ptr<Command> embed_command();
std::unique_ptr<Command> serve_command();
std::unique_ptr<Command> bench_command();
std::unique_ptr<Command> bench_serve_command();
std::unique_ptr<Command> tune_command();
std::unique_ptr<Command> tune_kernels_command();
std::unique_ptr<Command> tune_strategy_command();
std::unique_ptr<Command> explain_command();
std::unique_ptr<Command> inspect_command();
std::unique_ptr<Command> analyze_command();
std::unique_ptr<Command> pull_command();
std::unique_ptr<Command> manual_command();

}  // namespace nibble::cli
