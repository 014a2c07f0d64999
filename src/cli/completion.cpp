#include "cli/completion.h"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "cli/option_text.h"
#include "compress/recipe/recipe.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kSummaryBytes = 70;

struct KnownValues {
  std::string_view option;
  std::vector<std::string> values;
};

// Of options whose check is a function: it says what is wrong, not what is right.
const std::vector<KnownValues>& known_values() {
  static const std::vector<KnownValues> known = {
      {"--device", {"cpu", "cuda"}},
      {"--activations", {"int8", "int16", "float"}},
      {"--kv-type", {"f16", "f32", "fp8", "int8", "int4"}},
      {"--numa", {"none", "interleave", "isolate"}},
      {"--recipe", compress::recipe_names()},
  };
  return known;
}

// "hermes", "llama" of "TEXT:{hermes,llama}", which CLI11 says of an option with IsMember.
std::vector<std::string> members(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) {
    return words;
  }
  std::string_view list = std::string_view(type).substr(open + 1, close - open - 1);
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    words.emplace_back(list.substr(0, std::min(end, list.find("->"))));  // "fixed->1"
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

// As much of a description as fits on a line of a list, without remarks.
std::string summary_of(const std::string& description) {
  std::string text = description.substr(
      0, std::min({description.find("; "), description.find(" ("), description.find(": ")}));
  if (text.size() > kSummaryBytes) {
    text.resize(text.rfind(' ', kSummaryBytes));
  }
  return text;
}

ValueKind kind_of(const CLI::Option& option, const std::vector<std::string>& choices) {
  if (!takes_value(option)) {
    return ValueKind::kNone;
  }
  if (!choices.empty()) {
    return ValueKind::kChoice;
  }
  return value_word(option) == "TEXT" ? ValueKind::kFile : ValueKind::kNumber;
}

CompletedCommand completed(const CLI::App& app, const std::string& name) {
  CompletedCommand command{name, summary_of(app.get_description()), {}};
  for (const OptionSection& section : option_sections(app)) {
    for (const CLI::Option* option : section.options) {
      if (!option->get_positional()) {
        const std::vector<std::string> choices = choices_of(*option);
        command.options.push_back({names_of(*option), summary_of(option->get_description()),
                                   kind_of(*option, choices), choices});
      }
    }
  }
  return command;
}

}  // namespace

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::vector<std::string> names = names_of(option);
  for (const KnownValues& known : known_values()) {
    if (std::find(names.begin(), names.end(), known.option) != names.end()) {
      return known.values;
    }
  }
  return members(option.get_type_name());
}

std::vector<CompletedCommand> completed_commands(const CLI::App& program) {
  std::vector<CompletedCommand> commands;
  for (const CLI::App* command : program.get_subcommands({})) {
    commands.push_back(completed(*command, command->get_name()));
  }
  commands.push_back(completed(program, ""));
  return commands;
}

}  // namespace nibble::cli
