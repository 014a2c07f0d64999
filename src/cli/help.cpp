#include "cli/help.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/option_text.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kIndent = 26;  // of descriptions

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

}  // namespace

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
    text += " " + argument_word(*option);
  }
  return text + (app->get_parent() == nullptr ? " COMMAND [options]\n" : " [options]\n");
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return entry(is_positional ? name_of_argument(*option) : names_and_value(*option),
               full_description(*option));
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
