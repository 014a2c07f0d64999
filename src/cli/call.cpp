#include "cli/call.h"

#include <cstdio>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/output.h"
#include "core/error.h"
#include "core/nearest_name.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kHelp = "help";  // `nibble help run` is `nibble run --help`

bool is_option(std::string_view word) {
  return word.size() > 1 && word.starts_with('-');
}

std::string exit_codes() {
  std::vector<std::string> words;
  for (const ExitCode& exit : kExitCodes) {
    words.push_back(fmt::format("{} {}", exit.code, exit.meaning));
  }
  return fmt::format("Exit codes: {}.", fmt::join(words, ", "));
}

// "nibble", or "nibble run" behind the name of a command.
std::string program_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : "nibble " + app.get_name();
}

// Without hyphens.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    const auto& longs = option->get_lnames();
    names.insert(names.end(), longs.begin(), longs.end());
  }
  for (const CLI::App* group : app.get_subcommands({})) {
    if (group->get_name().empty()) {
      const auto more = option_names(*group);
      names.insert(names.end(), more.begin(), more.end());
    }
  }
  return names;
}

[[noreturn]] void refuse_option(const CLI::App& app, std::string_view word) {
  word = word.substr(0, word.find('='));
  const std::vector<std::string> names = option_names(app);
  const std::string_view plain = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string_view nearest = core::nearest_name(plain, names);
  core::fail(
      core::ErrorKind::kUsage, "unknown option '{}'{} (see {} --help)", core::printable(word),
      nearest.empty() ? "" : fmt::format("; did you mean '--{}'?", nearest), program_of(app));
}

}  // namespace

Call::Call(std::span<const CommandEntry> commands)
    : entries_(commands),
      app_(
          "Nibble makes a trained transformer 4 bits (or 8, or 3), shows what that cost, and runs "
          "it at the speed of the memory bus.",
          "nibble") {
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("Positionals", "Arguments");
  app_.formatter(formatter);
  app_.set_help_flag("-h,--help", "Print this help, also as nibble help COMMAND");
  app_.set_version_flag("--version", "nibble " NIBBLE_VERSION, "Print the version");
  app_.footer("nibble COMMAND --help shows options and examples.\n" + wrapped(exit_codes(), 0, 0));
  for (const CommandEntry& entry : entries_) {
    Command* command = commands_.emplace_back(entry.make()).get();
    CLI::App* sub = app_.add_subcommand(std::string(entry.name), std::string(entry.summary));
    sub->group("Commands");
    sub->footer("Examples:\n" + std::string(entry.examples));
    command->add_to(*sub, entry.json);
    sub->final_callback([this, command] { chosen_ = command; });
  }
}

void Call::require_command(std::string_view word) const {
  std::vector<std::string> names;
  for (const CommandEntry& entry : entries_) {
    if (entry.name == word) {
      return;
    }
    names.emplace_back(entry.name);
  }
  core::fail(core::ErrorKind::kUsage, "'{}' is not a command{} (commands are {})",
             core::printable(word), core::suggestion(word, names), fmt::join(names, ", "));
}

void Call::print_help(int argc, const char* const* argv) const {
  if (argc > 2) {
    require_command(argv[2]);
  }
  write_result(argc > 2 ? app_.get_subcommand(argv[2])->help("nibble") : app_.help());
}

Command* Call::parse(int argc, const char* const* argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == kHelp) {
    print_help(argc, argv);
    return nullptr;
  }
  if (argc > 1 && !is_option(first)) {
    require_command(first);
  }
  try {
    app_.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    print_result("{}\n", version.what());
    return nullptr;
  } catch (const CLI::Success&) {  // --help
    write_result(app_.help());
    return nullptr;
  } catch (const CLI::ParseError& error) {
    refuse(error);
  }
  core::require(chosen_ != nullptr, core::ErrorKind::kUsage,
                "a command is missing (see nibble --help)");
  return chosen_;
}

// CLI11 complains of a missing option before one that is unknown, which may be that one mistyped.
void Call::refuse(const CLI::ParseError& error) const {
  const auto called = app_.get_subcommands();
  const CLI::App& app = called.empty() ? app_ : *called.front();
  const std::vector<std::string> left = app_.remaining(true);
  for (const std::string& word : left) {
    if (is_option(word)) {
      refuse_option(app, word);
    }
  }
  core::require(left.empty(), core::ErrorKind::kUsage, "'{}' is one word too many (see {} --help)",
                core::printable(left.empty() ? "" : left.front()),
                core::lazily([&] { return program_of(app); }));
  core::fail(core::ErrorKind::kUsage, "{} (see {} --help)", error.what(), program_of(app));
}

}  // namespace nibble::cli
