#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/man_page.h"
#include "cli/option_text.h"

namespace nibble::cli {
namespace {

using ::testing::Test;

// The program's command line, as Call builds it.
class Manual : public Test {
 protected:
  Manual() {
    for (const CommandEntry& entry : commands()) {
      CLI::App* sub = app_.add_subcommand(std::string(entry.name), std::string(entry.summary));
      sub->footer("Examples:\n" + std::string(entry.examples));
      made_.push_back(entry.make());
      made_.back()->add_to(*sub, entry.json);
    }
  }

  CLI::App app_{"What it is.", "nibble"};
  std::vector<std::unique_ptr<Command>> made_;
};

// What a shell offers is what the option's own check takes.
TEST_F(Manual, ChoicesPassTheChecksOfTheirOptions) {
  int checked = 0;
  for (CLI::App* command : app_.get_subcommands({})) {
    for (CLI::Option* option : command->get_options({})) {
      for (std::string choice : choices_of(*option)) {
        if (option->get_name() != "--recipe") {
          EXPECT_EQ((*option->get_validator(0))(choice), "") << option->get_name() << " " << choice;
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 50);
}

TEST_F(Manual, EveryOptionStandsInItsPage) {
  const ManualFacts facts{"nibble 1.2.3", "2026-01-31"};
  for (const CLI::App* command : app_.get_subcommands({})) {
    const std::string page = command_page(*command, facts);
    for (const OptionSection& section : option_sections(*command)) {
      for (const CLI::Option* option : section.options) {
        for (std::string name : names_of(*option)) {
          for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) {
            name.insert(at, "\\");
          }
          EXPECT_NE(page.find(name), std::string::npos) << command->get_name() << " " << name;
        }
      }
    }
  }
}

TEST_F(Manual, PagesEscapeWhatRoffReads) {
  CLI::App command("Reads a\\b.", "odd");
  command.add_option("-x,--long-name", "Text");
  command.footer("Examples:\n.dot\n'quote \\ end");
  const std::string page = command_page(command, {"nibble 1.2.3", "2026-01-31"});
  EXPECT_TRUE(page.starts_with(".TH NIBBLE\\-ODD 1 2026-01-31 \"nibble 1.2.3\" \"Nibble\"\n"))
      << page;
  EXPECT_NE(page.find("Reads a\\eb."), std::string::npos) << page;
  EXPECT_NE(page.find("\\fB\\-x, \\-\\-long\\-name TEXT\\fR"), std::string::npos) << page;
  EXPECT_NE(page.find("\n\\&.dot\n\\&'quote \\e end\n"), std::string::npos) << page;
}

TEST_F(Manual, CompletionsKnowValues) {
  const auto all = completed_commands(app_);
  ASSERT_EQ(all.size(), commands().size() + 1);
  EXPECT_EQ(all.back().name, "");
  const auto& embed = *std::find_if(all.begin(), all.end(),
                                    [](const auto& command) { return command.name == "embed"; });
  std::map<std::string, ValueKind> kinds;
  std::map<std::string, std::vector<std::string>> choices;
  for (const CompletedOption& option : embed.options) {
    kinds[option.names.back()] = option.kind;
    choices[option.names.back()] = option.choices;
  }
  EXPECT_EQ(choices["--pooling"].size(), 3U);
  EXPECT_EQ(kinds["--pooling"], ValueKind::kChoice);
  EXPECT_EQ(kinds["--json"], ValueKind::kNone);
  EXPECT_EQ(kinds["--output"], ValueKind::kFile);
  EXPECT_EQ(kinds["--threads"], ValueKind::kNumber);
}

}  // namespace
}  // namespace nibble::cli
