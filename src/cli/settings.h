#pragma once

#include <string>
#include <vector>

#include "cli/option.h"

namespace nibble::cli {

/// Options of a command from all places that may say them: words of the call, else the environment
/// (PREFIX_MAX_BATCH for --max-batch), else the file of --config (max-batch = 8), else the default.
class Settings {
 public:
  /// `prefix`: of the variables, with its underscore. Adds --config and --print-config, before all
  /// other options. While the call is parsed, the options get what environment and file say; what
  /// is wrong there is kUsage, and names the variable or the file.
  void add(CLI::App& app, std::string prefix);

  /// Whether --print-config was given.
  bool print() const { return print_; }
  /// The values in force as one JSON object by the names of the options: null where a default is
  /// found out later, "***" for the values of `secret`.
  std::string text(const std::string& secret) const;

 private:
  void fill();
  void fill_from_file();
  bool is_setting(const CLI::Option& option) const;
  std::string variable(const CLI::Option& option) const;
  std::vector<std::string> names() const;

  CLI::App* app_ = nullptr;
  std::string prefix_;
  CLI::Option* config_ = nullptr;
  CLI::Option* print_option_ = nullptr;
  bool print_ = false;
};

}  // namespace nibble::cli
