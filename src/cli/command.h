#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace nibble::cli {

/// One subcommand of the program.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  virtual std::string_view examples() const = 0;  // shown under --help
  virtual void add_options(CLI::App& app) = 0;
  virtual void run() = 0;  // throws core::Error
};

/// Every command of this build; the one registration place is all.cpp.
std::vector<std::unique_ptr<Command>> commands();

}  // namespace nibble::cli
