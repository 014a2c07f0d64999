#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace nibble::cli {

/// Words of `text` in lines of at most 80 columns, the first of which begins at column `at`, the
/// others at `indent`.
std::string wrapped(std::string_view text, std::size_t at, std::size_t indent);

/// What --help prints: names, one word for what an option takes, and descriptions that are wrapped
/// at 80 columns and end with the default where it says something.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  /// Of a group of options.
  std::string make_expanded(const CLI::App* group) const override;
};

}  // namespace nibble::cli
