#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion.h"

namespace nibble::cli {
namespace {

// Inside '...[ ]...' of _arguments.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += {'\\', c};
    } else {
      out += c;
    }
  }
  return out;
}

std::string value_of(const CompletedOption& option) {
  switch (option.kind) {
    case ValueKind::kChoice:
      return fmt::format(":value:({})", fmt::join(option.choices, " "));
    case ValueKind::kNumber:
      return ":number:";
    case ValueKind::kFile:
      return ":file:_files";
    case ValueKind::kNone:
      break;
  }
  return {};
}

// '(-n --max-tokens)'{-n,--max-tokens}'[Tokens to generate]:number:'
std::string specification(const CompletedOption& option) {
  const std::string text = fmt::format("'[{}]{}'", escaped(option.summary), value_of(option));
  if (option.names.size() == 1) {
    return option.names.front() + text;
  }
  return fmt::format("'({})'{{{}}}{}", fmt::join(option.names, " "), fmt::join(option.names, ","),
                     text);
}

std::string arguments(const CompletedCommand& command) {
  std::string out;
  for (const CompletedOption& option : command.options) {
    out += fmt::format(" \\\n        {}", specification(option));
  }
  return out;
}

}  // namespace

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
  std::string names;
  std::string arms;
  for (const CompletedCommand& command : commands) {
    if (command.name.empty()) {
      arms += fmt::format("    *)\n      _arguments{}\n      ;;\n", arguments(command));
      continue;
    }
    names += fmt::format("    '{}:{}'\n", command.name, escaped(command.summary));
    arms += fmt::format("    {})\n      _arguments{} \\\n        '*:file:_files'\n      ;;\n",
                        command.name, arguments(command));
  }
  return fmt::format(
      "#compdef nibble\n\n"
      "_nibble() {{\n"
      "  local -a commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "    _describe -t commands command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  if [[ $command != -* ]]; then\n"
      "    shift words\n"
      "    (( CURRENT-- ))\n"
      "  fi\n"
      "  case $command in\n{}  esac\n"
      "}}\n\n_nibble \"$@\"\n",
      names, arms);
}

}  // namespace nibble::cli
