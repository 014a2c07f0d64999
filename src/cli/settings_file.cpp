#include "cli/settings_file.h"

#include <cmath>

#include <fmt/format.h>

#include "core/error.h"

// The only file that includes the library, which is large.
#include <toml++/toml.h>

namespace nibble::cli {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  std::vector<Setting> read(std::string_view text) const {
    std::vector<Setting> settings;
    for (const auto& [key, node] : parse(text)) {
      Setting setting;
      setting.key = std::string(key.str());
      setting.line = static_cast<int>(key.source().begin.line);
      if (const toml::array* values = node.as_array()) {
        for (const toml::node& value : *values) {
          setting.values.push_back(value_of(value, setting.line));
        }
      } else {
        setting.values = {value_of(node, setting.line)};
      }
      settings.push_back(std::move(setting));
    }
    return settings;
  }

 private:
  [[noreturn]] void fail(int line, std::string_view what) const {
    core::fail(core::ErrorKind::kUsage, "{}, line {}: {}", core::printable(file_), line,
               core::printable(what, 300));
  }

  toml::table parse(std::string_view text) const {
    try {
      return toml::parse(text);
    } catch (const toml::parse_error& error) {
      fail(static_cast<int>(error.source().begin.line), error.description());
    }
  }

  std::string value_of(const toml::node& node, int line) const {
    if (const auto text = node.value_exact<std::string>()) {
      return *text;
    }
    if (const auto truth = node.value_exact<bool>()) {
      return *truth ? "true" : "false";
    }
    if (const auto integer = node.value_exact<std::int64_t>()) {
      return std::to_string(*integer);
    }
    if (const auto number = node.value_exact<double>(); number && std::isfinite(*number)) {
      return fmt::format("{}", *number);
    }
    fail(line, "an option is a string, a finite number, true or false, or an array of these");
  }

  const std::string& file_;
};

}  // namespace

std::vector<Setting> parse_settings(std::string_view text, const std::string& file) {
  return Reader(file).read(text);
}

}  // namespace nibble::cli
