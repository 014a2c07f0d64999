#include "cli/option_text.h"

#include <algorithm>
#include <cctype>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace nibble::cli {
namespace {

// "128", "1,4,16"; empty where there is no default, or one that says nothing.
std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

std::string joined_names(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    names.push_back(option->get_name());
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<const CLI::Option*> options_of(const CLI::App& app, bool positional) {
  return app.get_options([positional](const CLI::Option* each) {
    return each->get_positional() == positional && !each->get_group().empty();
  });
}

}  // namespace

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  return names;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// Behind a colon CLI11 adds what it checks.
std::string_view value_word(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) {
    return "N";
  }
  return type.starts_with("FLOAT") ? "X" : "TEXT";
}

std::string names_and_value(const CLI::Option& option) {
  std::string text = fmt::format("{}", fmt::join(names_of(option), ", "));
  if (takes_value(option)) {
    text += fmt::format(" {}", value_word(option));
    text += option.get_items_expected_max() > 1 ? " ..." : "";
  }
  return text;
}

std::string full_description(const CLI::Option& option) {
  std::string text = option.get_description();
  if (const std::string value = default_of(option); !value.empty()) {
    text += fmt::format(" (default: {})", value);
  }
  if (option.get_required() && !option.get_positional()) {
    text += " (required)";
  }
  if (!option.get_needs().empty()) {
    text += fmt::format(" (with {})", joined_names(option.get_needs()));
  }
  if (!option.get_excludes().empty()) {
    text += fmt::format(" (not with {})", joined_names(option.get_excludes()));
  }
  return text;
}

std::string name_of_argument(const CLI::Option& option) {
  std::string word = option.get_name();
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return word;
}

std::string argument_word(const CLI::Option& option) {
  const std::string word = name_of_argument(option);
  return option.get_required() ? word : "[" + word + "]";
}

std::vector<OptionSection> option_sections(const CLI::App& app) {
  std::vector<OptionSection> sections = {{"Arguments", options_of(app, true)},
                                         {"Options", options_of(app, false)}};
  for (const CLI::App* group : app.get_subcommands({})) {
    if (group->get_name().empty()) {
      sections.push_back({fmt::format("{} ({})", group->get_group(), group->get_description()),
                          options_of(*group, false)});
    }
  }
  std::erase_if(sections, [](const OptionSection& section) { return section.options.empty(); });
  return sections;
}

}  // namespace nibble::cli
