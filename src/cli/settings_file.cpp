#include "cli/settings_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/error.h"
#include "text/unicode/utf8.h"

namespace nibble::cli {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";

bool is_one_of(char c, std::string_view some) {
  return some.find(c) != std::string_view::npos;
}

bool is_digit(char c) {
  return is_one_of(c, kDigits);
}

class SettingsReader {
 public:
  SettingsReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Setting> read() {
    if (!text::is_valid_utf8(text_)) {
      fail("the file is not UTF-8");
    }
    std::vector<Setting> settings;
    for (skip(true); at_ < text_.size(); skip(true)) {
      Setting setting = read_setting();
      const bool twice = std::any_of(settings.begin(), settings.end(),
                                     [&](const Setting& each) { return each.key == setting.key; });
      if (twice) {
        fail("'" + setting.key + "' stands twice");
      }
      settings.push_back(std::move(setting));
    }
    return settings;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    core::fail(core::ErrorKind::kUsage, "{}, line {}: {}", core::printable(file_), line_,
               core::printable(what, 300));
  }

  char next() const { return at_ < text_.size() ? text_[at_] : '\n'; }

  // Blanks and comments; also the ends of lines.
  void skip(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (is_one_of(c, " \t\r") || (lines && c == '\n')) {
        line_ += c == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string take_while(auto wanted) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && wanted(text_[at_])) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  Setting read_setting() {
    if (next() == '[') {
      fail("there are no tables; write lines 'option = value'");
    }
    Setting setting;
    setting.line = line_;
    setting.key = take_while(
        [](char c) { return is_one_of(c, kLetters) || is_digit(c) || is_one_of(c, "-_"); });
    skip(false);
    if (setting.key.empty() || next() != '=') {
      fail("this is no 'option = value'");
    }
    ++at_;
    skip(false);
    if (next() == '[') {
      read_array(setting.values);
    } else {
      setting.values = {read_value()};
    }
    skip(false);
    if (next() != '\n') {
      fail("something stands behind the value of '" + setting.key + "'");
    }
    return setting;
  }

  void read_array(std::vector<std::string>& values) {
    ++at_;
    for (skip(true); next() != ']'; skip(true)) {
      values.push_back(read_value());
      skip(true);
      if (next() == ',') {
        ++at_;
      } else if (next() != ']') {
        fail("an array has no end");
      }
    }
    ++at_;
  }

  std::string read_value() {
    const char quote = next();
    if (quote == '"' || quote == '\'') {
      ++at_;
      return read_string(quote);
    }
    const std::string word = take_while([](char c) { return !is_one_of(c, " \t\r\n,]#"); });
    if (word == "true" || word == "false") {
      return word;
    }
    return number(word);
  }

  std::string read_string(char quote) {
    std::string value;
    for (; next() != quote; ++at_) {
      if (next() == '\n') {
        fail("a string has no end");
      }
      value += next() == '\\' && quote == '"' ? escape() : next();
    }
    ++at_;
    return value;
  }

  char escape() {
    static constexpr std::string_view kNames = "btnfr\"\\";
    static constexpr std::string_view kMeant = "\b\t\n\f\r\"\\";
    ++at_;
    const std::size_t known = kNames.find(next());
    if (known == std::string_view::npos) {
      fail("a string has an escape that is not known here; write the character itself");
    }
    return kMeant[known];
  }

  // Without a plus and underscores, which the program's options do not know.
  std::string number(const std::string& word) const {
    std::string plain = word;
    for (std::size_t i = 1; i + 1 < plain.size(); ++i) {
      if (plain[i] == '_' && is_digit(plain[i - 1]) && is_digit(plain[i + 1])) {
        plain.erase(i, 1);
      }
    }
    plain.erase(0, plain.substr(0, 1) == "+" ? 1 : 0);
    const std::size_t first = plain.substr(0, 1) == "-" ? 1 : 0;
    const bool digits = plain.size() > first && is_digit(plain[first]);
    const bool octal =
        digits && plain.size() > first + 1 && plain[first] == '0' && is_digit(plain[first + 1]);
    double value = 0;
    const char* end = plain.data() + plain.size();
    const auto [read, error] = std::from_chars(plain.data(), end, value);
    if (!digits || octal || error != std::errc() || read != end) {
      fail("'" + word + "' is no value: strings have quotes, the rest is a number, true or false");
    }
    return plain;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

std::vector<Setting> parse_settings(std::string_view text, const std::string& file) {
  return SettingsReader(text, file).read();
}

}  // namespace nibble::cli
