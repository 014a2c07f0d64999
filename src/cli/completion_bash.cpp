#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.h"

namespace nibble::cli {
namespace {

// bash divides --device=cuda at the '=', so the word before a value may be two words back.
constexpr std::string_view kBegin =
    R"(# bash completion for nibble                             -*- shell-script -*-

_nibble() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=${COMP_WORDS[1]} options='' values=''
  COMPREPLY=()
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
    command=
  fi
  case $command in
)";

constexpr std::string_view kEnd = R"(    *) return ;;
  esac
  if [[ $values == none ]]; then
    compopt +o default +o bashdefault 2>/dev/null
  elif [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  elif [[ $current == -* || -z $command ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  fi
}
complete -o bashdefault -o default -F _nibble nibble
)";

// Files are what bash offers when nothing else is.
std::string arm(const CompletedOption& option) {
  const std::string names = fmt::format("{}", fmt::join(option.names, " | "));
  switch (option.kind) {
    case ValueKind::kChoice:
      return fmt::format("        {}) values='{}' ;;\n", names, fmt::join(option.choices, " "));
    case ValueKind::kNumber:
      return fmt::format("        {}) values=none ;;\n", names);
    case ValueKind::kFile:
      return fmt::format("        {}) return ;;\n", names);
    case ValueKind::kNone:
      break;
  }
  return {};
}

}  // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
  std::string out(kBegin);
  std::vector<std::string> all;
  for (const CompletedCommand& command : commands) {
    std::vector<std::string> words;
    std::string arms;
    for (const CompletedOption& option : command.options) {
      words.insert(words.end(), option.names.begin(), option.names.end());
      arms += arm(option);
    }
    if (command.name.empty()) {  // the last: its words are those of all commands too
      words.insert(words.begin(), all.begin(), all.end());
    }
    all.push_back(command.name);
    out += fmt::format("    {})\n      options='{}'\n", command.name.empty() ? "''" : command.name,
                       fmt::join(words, " "));
    out += arms.empty() ? "" : "      case $previous in\n" + arms + "      esac\n";
    out += "      ;;\n";
  }
  return out + std::string(kEnd);
}

}  // namespace nibble::cli
