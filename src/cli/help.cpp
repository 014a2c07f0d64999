#include "cli/help.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace nibble::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 26;  // of descriptions

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Words of `text` in lines of at most kWidth, the first of which begins at column `at`.
std::string wrapped(std::string_view text, std::size_t at, std::size_t indent) {
  std::string out;
  std::size_t column = at;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

// "  -n, --max-tokens N      Tokens to generate".
std::string entry(const std::string& name, const std::string& description) {
  const std::string left = "  " + name;
  std::string out = left;
  if (left.size() + 2 > kIndent) {
    out += "\n" + std::string(kIndent, ' ');
  } else {
    out += std::string(kIndent - left.size(), ' ');
  }
  return out + wrapped(description, kIndent, kIndent) + "\n";
}

// What an option takes, in one word. Behind a colon CLI11 adds what it checks.
std::string_view value_word(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) {
    return "N";
  }
  return type.starts_with("FLOAT") ? "X" : "TEXT";
}

// "128", "1,4,16"; empty where there is no default, or one that says nothing.
std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  }
  return text;
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) {
    names.push_back(option->get_name());
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string description_of(const CLI::Option& option) {
  std::string text = option.get_description();
  if (const std::string value = default_of(option); !value.empty()) {
    text += fmt::format(" (default: {})", value);
  }
  if (option.get_required() && !option.get_positional()) {
    text += " (required)";
  }
  if (!option.get_needs().empty()) {
    text += fmt::format(" (with {})", names_of(option.get_needs()));
  }
  if (!option.get_excludes().empty()) {
    text += fmt::format(" (not with {})", names_of(option.get_excludes()));
  }
  return text;
}

std::string names_and_value(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (option.get_items_expected_max() > 0) {
    text += fmt::format(" {}", value_word(option));
    text += option.get_items_expected_max() > 1 ? " ..." : "";
  }
  return text;
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = wrapped(app->get_description(), 0, 0) + "\n\n" + make_usage(app, name);
  text += make_positionals(app) + make_groups(app, mode) + make_subcommands(app, mode);
  return text + "\n" + make_footer(app);
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  std::string text = "Usage: " + name;
  for (const CLI::Option* option :
       app->get_options([](const CLI::Option* each) { return each->get_positional(); })) {
    const std::string word = upper(option->get_name());
    text += option->get_required() ? " " + word : " [" + word + "]";
  }
  return text + (app->get_parent() == nullptr ? " COMMAND [options]\n" : " [options]\n");
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(is_positional ? upper(option->get_name()) : names_and_value(*option),
               description_of(*option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return entry(sub->get_name(), sub->get_description());
}

std::string HelpFormatter::make_expanded(const CLI::App* group) const {
  std::string text = fmt::format("\n{} ({}):\n", group->get_group(), group->get_description());
  for (const CLI::Option* option : group->get_options()) {
    text += make_option(option, false);
  }
  return text;
}

}  // namespace nibble::cli
