#include "cli/option.h"

#include <cstdint>
#include <optional>

#include <CLI/CLI.hpp>

namespace nibble::cli {

Option Option::required() const {
  return Option(option_->required());
}

Option Option::capture_default_str() const {
  return Option(option_->capture_default_str());
}

Option Option::delimiter(char between) const {
  return Option(option_->delimiter(between));
}

Option Option::envname(const std::string& name) const {
  return Option(option_->envname(name));
}

Option Option::needs(const Option& other) const {
  return Option(option_->needs(other.option_));
}

Option Option::excludes(const Option& other) const {
  return Option(option_->excludes(other.option_));
}

Option Option::excludes(const std::string& other) const {
  return Option(option_->excludes(other));
}

Option Option::check(const std::function<std::string(const std::string&)>& problem) const {
  return Option(option_->check(problem));
}

Option Option::positive() const {
  return Option(option_->check(CLI::PositiveNumber));
}

Option Option::not_negative() const {
  return Option(option_->check(CLI::NonNegativeNumber));
}

Option Option::in_range(int least, int most) const {
  return Option(option_->check(CLI::Range(least, most)));
}

Option Option::in_range(std::int64_t least, std::int64_t most) const {
  return Option(option_->check(CLI::Range(least, most)));
}

Option Option::in_range(double least, double most) const {
  return Option(option_->check(CLI::Range(least, most)));
}

Option Option::one_of(const std::vector<std::string>& words) const {
  return Option(option_->check(CLI::IsMember(words)));
}

std::size_t Option::count() const {
  return option_->count();
}

std::string Option::get_name() const {
  return option_->get_name();
}

template <typename Value>
Option add_option(CLI::App& app, const std::string& names, Value& value, const std::string& help) {
  return Option(app.add_option(names, value, help));
}

template Option add_option(CLI::App&, const std::string&, std::string&, const std::string&);
template Option add_option(CLI::App&, const std::string&, int&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::uint16_t&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::int64_t&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::uint64_t&, const std::string&);
template Option add_option(CLI::App&, const std::string&, float&, const std::string&);
template Option add_option(CLI::App&, const std::string&, double&, const std::string&);
template Option add_option(CLI::App&, const std::string&, std::optional<std::int64_t>&,
                           const std::string&);
template Option add_option(CLI::App&, const std::string&, std::optional<double>&,
                           const std::string&);
template Option add_option(CLI::App&, const std::string&, std::optional<std::string>&,
                           const std::string&);
template Option add_option(CLI::App&, const std::string&, std::vector<std::string>&,
                           const std::string&);
template Option add_option(CLI::App&, const std::string&, std::vector<std::int64_t>&,
                           const std::string&);

Option add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return Option(app.add_flag(names, value, help));
}

CLI::App& add_group(CLI::App& app, const std::string& name, const std::string& help) {
  return *app.add_option_group(name, help);
}

void allow_one(CLI::App& group) {
  group.require_option(0, 1);
}

Option option_of(const CLI::App& app, const std::string& name) {
  return Option(const_cast<CLI::Option*>(app.get_option(name)));
}

std::vector<Option> options_of(CLI::App& app) {
  std::vector<Option> options;
  for (CLI::Option* option : app.get_options({})) {
    options.emplace_back(option);
  }
  return options;
}

}  // namespace nibble::cli
