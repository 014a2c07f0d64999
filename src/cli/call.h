#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace nibble::cli {

/// The words of a call of the program.
class Call {
 public:
  /// `commands` must outlive this, and this the running of a command.
  explicit Call(std::span<const CommandEntry> commands);

  /// The command that was called, with its options set; or null when help or the version was asked
  /// for, which is printed on stdout. Throws kUsage for words that are wrong, with the nearest that
  /// are right.
  Command* parse(int argc, const char* const* argv);

 private:
  void require_command(std::string_view word) const;
  void print_help(int argc, const char* const* argv) const;
  [[noreturn]] void refuse(const CLI::ParseError& error) const;

  std::span<const CommandEntry> entries_;
  std::vector<std::unique_ptr<Command>> commands_;  // one for each entry
  CLI::App app_;
  Command* chosen_ = nullptr;
};

}  // namespace nibble::cli
