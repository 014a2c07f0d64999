#include "jinja/strftime.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <ctime>

namespace nibble::jinja {
namespace {

// The years that have four digits; moments outside are moved to their ends.
constexpr std::int64_t kFirstSecond = -62135596800;  // 0001-01-01
constexpr std::int64_t kLastSecond = 253402300799;   // 9999-12-31

/// The names of months and days in English, while the object lives.
class EnglishNames {
 public:
  EnglishNames() : locale_(newlocale(LC_ALL_MASK, "C", nullptr)) {}
  ~EnglishNames() { freelocale(locale_); }
  EnglishNames(const EnglishNames&) = delete;
  EnglishNames& operator=(const EnglishNames&) = delete;
  locale_t get() const { return locale_; }

 private:
  locale_t locale_;
};

tm calendar_of(std::int64_t unix_seconds) {
  const std::time_t time = std::clamp(unix_seconds, kFirstSecond, kLastSecond);
  tm calendar = {};
  gmtime_r(&time, &calendar);
  return calendar;
}

// One directive without the %, such as "d" or "-d".
std::string format_directive(std::string directive, const tm& calendar) {
  static const EnglishNames names;
  if (directive == "Y") {
    return fmt::format("{:04}", calendar.tm_year + 1900);  // glibc does not pad the year 1
  }
  std::array<char, 64> text = {};
  directive.insert(0, 1, '%');
  return {text.data(),
          strftime_l(text.data(), text.size(), directive.c_str(), &calendar, names.get())};
}

}  // namespace

std::string format_time(Runtime& runtime, std::string_view format, std::int64_t unix_seconds) {
  constexpr std::string_view kKnown = "AaBbcDdeFHhIjMmpRrSTuwXxYy%";
  const tm calendar = calendar_of(unix_seconds);
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    runtime.step();
    if (format[at] != '%') {
      out.push_back(format[at]);
      continue;
    }
    const std::size_t length = format.substr(at + 1).starts_with('-') ? 2 : 1;
    const std::string_view directive = format.substr(at + 1, length);
    runtime.require(directive.size() == length,
                    "strftime_now: '%' stands at the end of the format");
    runtime.require(kKnown.find(directive.back()) != std::string_view::npos,
                    "strftime_now: '%{}' is not supported by Nibble's templates",
                    core::printable(directive));
    out += format_directive(std::string(directive), calendar);
    at += length;
  }
  return out;
}

}  // namespace nibble::jinja
