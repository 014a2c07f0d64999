#include <cstdlib>
#include <ctime>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/man_page.h"
#include "cli/output.h"
#include "core/error.h"
#include "io/atomic_file.h"
#include "io/file_descriptor.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

// Of the build, where SOURCE_DATE_EPOCH says it (reproducible-builds.org): equal sources then give
// equal pages.
std::string date_of_pages() {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t now = epoch == nullptr ? std::time(nullptr) : std::atoll(epoch);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    io::fail_with_errno("create", folder, error.value());
  }
}

class Manual final : public Command {
 public:
  void add_options(CLI::App& app) override {
    app_ = &app;
    app.add_option("--shell", shell_, "Print the completions of a shell instead")
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    app.add_option("-o,--output", output_,
                   "Folder for pages and completions: man/nibble.1, bash/nibble, zsh/_nibble, "
                   "fish/nibble.fish");
  }

  void run() override {
    core::require(shell_.empty() != output_.empty(), core::ErrorKind::kUsage,
                  "give --shell bash, zsh or fish to see completions, or -o with a folder for all "
                  "pages and completions");
    const CLI::App& program = *app_->get_parent();
    const auto commands = completed_commands(program);
    if (output_.empty()) {
      write_result(completion(commands, shell_));
      return;
    }
    write_pages(program);
    write("bash/nibble", completion(commands, "bash"));
    write("zsh/_nibble", completion(commands, "zsh"));
    write("fish/nibble.fish", completion(commands, "fish"));
  }

 private:
  static std::string completion(const std::vector<CompletedCommand>& commands,
                                std::string_view shell) {
    if (shell == "bash") {
      return bash_completion(commands);
    }
    return shell == "zsh" ? zsh_completion(commands) : fish_completion(commands);
  }

  void write_pages(const CLI::App& program) const {
    const ManualFacts facts{program.version(), date_of_pages()};
    write("man/nibble.1", program_page(program, facts));
    for (const CLI::App* command : program.get_subcommands({})) {
      write("man/nibble-" + command->get_name() + ".1", command_page(*command, facts));
    }
  }

  void write(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(output_) / name;
    create_folder(path.parent_path());
    io::write_file_atomically(path, text);
  }

  const CLI::App* app_ = nullptr;
  std::string shell_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> manual_command() {
  return std::make_unique<Manual>();
}

}  // namespace nibble::cli
