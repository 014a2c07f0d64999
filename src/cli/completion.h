#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/option.h"

namespace nibble::cli {

/// What may stand behind an option, as far as a shell can offer it.
enum class ValueKind { kNone, kChoice, kNumber, kFile };

/// An option as completions see it.
struct CompletedOption {
  std::vector<std::string> names;  // "-n", "--max-tokens"
  std::string summary;             // the first words of its description
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;
};

/// A command with its options.
struct CompletedCommand {
  std::string name;
  std::string summary;
  std::vector<CompletedOption> options;
};

/// The commands of the program, and last the program itself, whose name is empty.
std::vector<CompletedCommand> completed_commands(const CLI::App& program);

/// The values that an option's check names, or that this build knows: "cpu", "cuda" of --device.
std::vector<std::string> choices_of(const CLI::Option& option);

/// Scripts for bash (in a file nibble), zsh (_nibble) and fish (nibble.fish).
std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

}  // namespace nibble::cli
