#include <csignal>
#include <cstdio>
#include <new>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "core/error.h"
#include "io/mapped_file.h"

namespace nibble::cli {
namespace {

// One line on stderr, whatever the message holds.
int report(core::ErrorKind kind, std::string_view message) {
  fmt::print(stderr, "nibble: error: {}\n", core::printable(message, 2000));
  return static_cast<int>(kind);
}

void describe(CLI::App& app) {
  app.description(
      "Nibble makes a trained transformer 4 bits (or 8, or 3), shows what that cost, and runs it "
      "at the speed of the "
      "memory bus.");
  app.set_version_flag("--version", "nibble " NIBBLE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 invalid model, 4 out of memory, 5 "
      "input/output,\n"
      "6 integrity, 7 below the asked threshold.");
}

// CLI11 says of an unknown command only that one is required.
void require_known(const std::vector<std::unique_ptr<Command>>& all, std::string_view word) {
  std::string names;
  for (const auto& command : all) {
    if (command->name() == word) {
      return;
    }
    names += names.empty() ? "" : ", ";
    names += command->name();
  }
  core::fail(core::ErrorKind::kUsage, "'{}' is not a command; commands are {}",
             core::printable(word), names);
}

int run_program(int argc, char** argv) {
  CLI::App app;
  describe(app);
  const auto all = commands();
  if (argc > 1 && argv[1][0] != '-') {
    require_known(all, argv[1]);
  }
  Command* chosen = nullptr;
  for (const auto& command : all) {
    CLI::App* sub =
        app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    sub->footer("Examples:\n" + std::string(command->examples()));
    command->add_options(*sub);
    sub->final_callback([&chosen, &command] { chosen = command.get(); });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return report(core::ErrorKind::kUsage, fmt::format("{} (see nibble --help)", error.what()));
  }
  chosen->run();
  std::fflush(stdout);
  core::require(std::ferror(stdout) == 0, core::ErrorKind::kIo, "cannot write to standard output");
  return 0;
}

int guarded(int argc, char** argv) {
  try {
    return run_program(argc, argv);
  } catch (const core::Error& error) {
    return report(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return report(core::ErrorKind::kOutOfMemory,
                  "out of memory; use a smaller model, context or batch");
  } catch (const std::filesystem::filesystem_error& error) {
    return report(core::ErrorKind::kIo, error.what());
  } catch (const std::exception& error) {
    return report(core::ErrorKind::kFailed, error.what());
  }
}

}  // namespace
}  // namespace nibble::cli

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  nibble::io::install_truncation_guard();
  return nibble::cli::guarded(argc, argv);
}
