#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.h"

namespace nibble::cli {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  }
  return "'" + out + "'";
}

std::string value_of(const CompletedOption& option) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
    case ValueKind::kNumber:
      return " -x";
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kNone:
      break;
  }
  return {};
}

std::string line(const std::string& condition, const CompletedOption& option) {
  std::string out = fmt::format("complete -c nibble -n {}", in_quotes(condition));
  for (const std::string& name : option.names) {
    out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return fmt::format("{}{} -d {}\n", out, value_of(option), in_quotes(option.summary));
}

}  // namespace

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
  std::string out = "# fish completion for nibble\n";
  for (const CompletedCommand& command : commands) {
    const bool program = command.name.empty();
    if (!program) {
      out += fmt::format("complete -c nibble -n __fish_use_subcommand -f -a {} -d {}\n",
                         command.name, in_quotes(command.summary));
    }
    const std::string condition =
        program ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + command.name;
    for (const CompletedOption& option : command.options) {
      out += line(condition, option);
    }
  }
  return out;
}

}  // namespace nibble::cli
