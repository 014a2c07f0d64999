#pragma once

#include <string>

#include "cli/option.h"

namespace nibble::cli {

/// What stands at the head and foot of a page.
struct ManualFacts {
  std::string version;  // "nibble 0.1.0"
  std::string date;     // "2026-01-31"
};

/// nibble(1) in man(7) macros: what the program is, its commands, exit codes and variables.
std::string program_page(const CLI::App& program, const ManualFacts& facts);

/// nibble-COMMAND(1): usage, arguments, options and examples, as --help has them.
std::string command_page(const CLI::App& command, const ManualFacts& facts);

}  // namespace nibble::cli
