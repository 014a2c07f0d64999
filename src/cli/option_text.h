#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/option.h"

namespace nibble::cli {

/// What help, manual pages and completions say of an option: all of them read it here.

/// "-n, --max-tokens".
std::vector<std::string> names_of(const CLI::Option& option);

/// Whether words stand behind it: "--max-tokens 8", unlike "--json".
bool takes_value(const CLI::Option& option);

/// What it takes, in one word: "N" (an integer), "X" (a number) or "TEXT".
std::string_view value_word(const CLI::Option& option);

/// "-n, --max-tokens N"; "--batch N ..." where it takes several.
std::string names_and_value(const CLI::Option& option);

/// Its description with the default, and with what it needs and excludes.
std::string full_description(const CLI::Option& option);

/// An argument that has no name before it: "MODEL".
std::string name_of_argument(const CLI::Option& option);
/// The same as usage shows it: "[MODEL]" where it may be missing.
std::string argument_word(const CLI::Option& option);

/// Options of an app that stand under one heading.
struct OptionSection {
  std::string heading;  // "Arguments", "Options", or a group's name with its description
  std::vector<const CLI::Option*> options;
};

/// All that help shows, in its order.
std::vector<OptionSection> option_sections(const CLI::App& app);

}  // namespace nibble::cli
