#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
class Option;
}  // namespace CLI

/// How commands say what they take. CLI11's headers define all of it in every source that includes
/// them, which takes the compiler some seconds; few sources do.
namespace nibble::cli {

/// An option of a command. Each call changes it and returns it: add_option(...)->required().
class Option {
 public:
  Option() = default;
  explicit Option(CLI::Option* option) : option_(option) {}
  Option* operator->() { return this; }
  const Option* operator->() const { return this; }

  Option required() const;
  Option capture_default_str() const;  // help shows the value that it has now
  Option delimiter(char between) const;
  Option envname(const std::string& name) const;
  Option needs(const Option& other) const;
  Option excludes(const Option& other) const;
  Option excludes(const std::string& other) const;

  /// What values it takes. `problem` gives an empty text for those that are right.
  Option check(const std::function<std::string(const std::string&)>& problem) const;
  Option positive() const;
  Option not_negative() const;
  Option in_range(int least, int most) const;
  Option in_range(std::int64_t least, std::int64_t most) const;
  Option in_range(double least, double most) const;
  Option one_of(const std::vector<std::string>& words) const;

  /// How often the call names it.
  std::size_t count() const;
  std::string get_name() const;

 private:
  CLI::Option* option_ = nullptr;
};

/// "-o,--output" or, of an argument, "model". `value` must outlive the parsing. For the types of
/// values that option.cpp lists.
template <typename Value>
Option add_option(CLI::App& app, const std::string& names, Value& value, const std::string& help);
Option add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& help);

/// Options under a heading of their own.
CLI::App& add_group(CLI::App& app, const std::string& name, const std::string& help);
/// Of the options of a group a call may name one.
void allow_one(CLI::App& group);

/// An option that was added before.
Option option_of(const CLI::App& app, const std::string& name);
std::vector<Option> options_of(CLI::App& app);

}  // namespace nibble::cli
