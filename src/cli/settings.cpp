#include "cli/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/settings_file.h"
#include "core/error.h"
#include "core/nearest_name.h"
#include "io/text_file.h"

namespace nibble::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxFileBytes = 1 << 20;

// "max-batch"; of the argument without dashes its own name.
std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : option.get_lnames().front();
}

bool is_flag(const CLI::Option& option) {
  return option.get_expected_max() == 0;
}

// CLI11 takes many more words for flags, and numbers.
bool is_truth(const std::string& value) {
  return value == "true" || value == "false" || value == "1" || value == "0";
}

// `source` names who said so.
void set(CLI::Option& option, const std::vector<std::string>& values, const std::string& source) {
  try {
    for (const std::string& value : values) {
      core::require(!is_flag(option) || is_truth(value), core::ErrorKind::kUsage,
                    "{}: --{} is '{}', must be true or false", source,
                    core::lazily([&] { return name_of(option); }), core::printable(value));
      option.add_result(is_flag(option) ? option.get_flag_value(name_of(option), value) : value);
    }
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    core::fail(core::ErrorKind::kUsage, "{}: {}", source, error.what());
  }
}

Json value_of(const CLI::Option& option) {
  if (is_flag(option)) {
    const bool given = option.count() > 0;
    const bool negative = !option.get_fnames().empty();  // --no-...: its value is the opposite
    return given && option.as<bool>() != negative;
  }
  if (option.get_items_expected_max() > 1) {
    return option.count() > 0 ? Json(option.results()) : Json::array();
  }
  if (option.count() == 0 && option.get_default_str().empty()) {
    return nullptr;
  }
  const std::string type = option.get_type_name();  // and what is allowed
  if (type.rfind("INT", 0) == 0 || type.rfind("UINT", 0) == 0) {
    return option.as<std::int64_t>();
  }
  if (type.rfind("FLOAT", 0) == 0) {
    return option.as<double>();
  }
  return option.as<std::string>();
}

}  // namespace

// CLI11 2.1 reads files for the whole program only, and prefers them to the environment. So
// --config is the first option: its callback runs always, after the words were read, and before the
// callbacks of all others and the checks of what is required.
void Settings::add(CLI::App& app, std::string prefix) {
  app_ = &app;
  prefix_ = std::move(prefix);
  config_ = app.add_option_function<std::string>(
      "--config", [this](const std::string&) { fill(); },
      "TOML file of options (max-batch = 8), behind those of the call and of the environment (" +
          prefix_ + "MAX_BATCH=8)");
  config_->force_callback();
  print_option_ =
      app.add_flag("--print-config", print_, "Print the options in force as JSON, and end");
}

bool Settings::is_setting(const CLI::Option& option) const {
  return &option != config_ && &option != print_option_ && &option != app_->get_help_ptr();
}

std::string Settings::variable(const CLI::Option& option) const {
  std::string name = prefix_;
  for (const char c : name_of(option)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

void Settings::fill() {
  const bool other_command = app_->count() == 0;
  if (other_command || app_->get_help_ptr()->count() > 0) {
    return;
  }
  for (CLI::Option* option : app_->get_options()) {
    const std::string name = variable(*option);
    const char* value = std::getenv(name.c_str());
    if (is_setting(*option) && option->count() == 0 && value != nullptr && *value != '\0') {
      set(*option, {value}, name);
    }
  }
  fill_from_file();
}

void Settings::fill_from_file() {
  const char* named = std::getenv(variable(*config_).c_str());
  const std::string given = config_->results().front();
  const std::string file = given.empty() && named != nullptr ? named : given;
  if (file.empty()) {
    return;
  }
  std::vector<CLI::Option*> said;
  for (const Setting& setting : parse_settings(io::read_named_text(file, kMaxFileBytes), file)) {
    const std::string source = fmt::format("{}, line {}", core::printable(file), setting.line);
    CLI::Option* option = app_->get_option_no_throw("--" + setting.key);
    option = option != nullptr ? option : app_->get_option_no_throw(setting.key);
    if (option == nullptr || !is_setting(*option)) {
      core::fail(core::ErrorKind::kUsage, "{}: '{}' is no option of nibble {}{}", source,
                 setting.key, app_->get_name(), core::suggestion(setting.key, names()));
    }
    core::require(std::find(said.begin(), said.end(), option) == said.end(),
                  core::ErrorKind::kUsage, "{}: '{}' is said twice", source,
                  core::lazily([&] { return name_of(*option); }));
    said.push_back(option);
    const bool overruled = option->count() > 0;
    if (!overruled) {
      set(*option, setting.values, source);
    }
  }
}

std::vector<std::string> Settings::names() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (is_setting(*option)) {
      names.push_back(name_of(*option));
    }
  }
  return names;
}

std::string Settings::text(const std::string& secret) const {
  Json json;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (is_setting(*option)) {
      const std::string name = name_of(*option);
      json[name] = name == secret ? Json(std::vector<std::string>(option->count(), "***"))
                                  : value_of(*option);
    }
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nibble::cli
