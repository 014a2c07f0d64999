#include "jinja/strftime.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace nibble::jinja {
namespace {

// The years that have four digits; moments outside are moved to their ends.
constexpr std::int64_t kFirstSecond = -62135596800;  // 0001-01-01
constexpr std::int64_t kLastSecond = 253402300799;   // 9999-12-31

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};

struct Moment {
  std::int64_t unix_seconds = 0;
  int year = 0;
  int month = 0;  // 1 to 12
  int day = 0;
  int weekday = 0;  // 0 is Sunday
  int day_of_year = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

Moment moment_of(std::int64_t unix_seconds) {
  using std::chrono::days;
  const std::chrono::sys_seconds time{
      std::chrono::seconds(std::clamp(unix_seconds, kFirstSecond, kLastSecond))};
  const auto date = std::chrono::floor<days>(time);
  const std::chrono::year_month_day ymd(date);
  const std::chrono::hh_mm_ss clock(time - date);
  const auto new_year = std::chrono::sys_days(ymd.year() / 1 / 1);
  Moment m;
  m.unix_seconds = time.time_since_epoch().count();
  m.year = static_cast<int>(ymd.year());
  m.month = static_cast<int>(static_cast<unsigned>(ymd.month()));
  m.day = static_cast<int>(static_cast<unsigned>(ymd.day()));
  m.weekday = static_cast<int>(std::chrono::weekday(date).c_encoding());
  m.day_of_year = static_cast<int>((date - new_year).count()) + 1;
  m.hour = static_cast<int>(clock.hours().count());
  m.minute = static_cast<int>(clock.minutes().count());
  m.second = static_cast<int>(clock.seconds().count());
  return m;
}

// A number and the width it is padded to; width 0 marks a directive that is no number.
struct Field {
  int value = 0;
  int width = 0;
  char padding = '0';
};

Field number_field(const Moment& m, char directive) {
  const int hour12 = m.hour % 12 == 0 ? 12 : m.hour % 12;
  switch (directive) {
    case 'Y':
      return {m.year, 4, '0'};
    case 'y':
      return {m.year % 100, 2, '0'};
    case 'm':
      return {m.month, 2, '0'};
    case 'd':
      return {m.day, 2, '0'};
    case 'e':
      return {m.day, 2, ' '};
    case 'H':
      return {m.hour, 2, '0'};
    case 'I':
      return {hour12, 2, '0'};
    case 'M':
      return {m.minute, 2, '0'};
    case 'S':
      return {m.second, 2, '0'};
    case 'j':
      return {m.day_of_year, 3, '0'};
    case 'f':
      return {0, 6, '0'};
    case 'w':
      return {m.weekday, 1, '0'};
    case 'u':
      return {m.weekday == 0 ? 7 : m.weekday, 1, '0'};
    default:
      return {};
  }
}

// What a directive for whole phrases stands for, empty for others.
std::string_view expansion(char directive) {
  switch (directive) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'R':
      return "%H:%M";
    case 'r':
      return "%I:%M:%S %p";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return {};
  }
}

void append_directive(const Runtime& runtime, std::string& out, const Moment& m, char directive,
                      bool padded);

void append_format(const Runtime& runtime, std::string& out, const Moment& m,
                   std::string_view format) {
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out.push_back(format[at]);
      continue;
    }
    const bool padded = at + 1 >= format.size() || format[at + 1] != '-';
    at += padded ? 1 : 2;
    runtime.require(at < format.size(), "strftime_now: '%' stands at the end of the format");
    append_directive(runtime, out, m, format[at], padded);
  }
}

void append_directive(const Runtime& runtime, std::string& out, const Moment& m, char directive,
                      bool padded) {
  const auto month = static_cast<std::size_t>(m.month - 1);
  const auto day = static_cast<std::size_t>(m.weekday);
  if (const Field field = number_field(m, directive); field.width > 0) {
    const std::string digits = std::to_string(field.value);
    const std::size_t width = padded ? static_cast<std::size_t>(field.width) : 0;
    out.append(width > digits.size() ? width - digits.size() : 0, field.padding);
    out += digits;
    return;
  }
  if (const std::string_view phrase = expansion(directive); !phrase.empty()) {
    append_format(runtime, out, m, phrase);
    return;
  }
  switch (directive) {
    case 'A':
      out += kDays[day];
      return;
    case 'a':
      out += kDays[day].substr(0, 3);
      return;
    case 'B':
      out += kMonths[month];
      return;
    case 'b':
    case 'h':
      out += kMonths[month].substr(0, 3);
      return;
    case 'p':
      out += m.hour < 12 ? "AM" : "PM";
      return;
    case 's':
      out += std::to_string(m.unix_seconds);
      return;
    case 'n':
      out += '\n';
      return;
    case 't':
      out += '\t';
      return;
    case 'Z':
    case 'z':
      return;  // like Python for a time without a zone
    case '%':
      out += '%';
      return;
    default:
      runtime.fail("strftime_now: the directive '%{}' is not supported",
                   core::printable({&directive, 1}));
  }
}

}  // namespace

std::string format_time(const Runtime& runtime, std::string_view format,
                        std::int64_t unix_seconds) {
  std::string out;
  append_format(runtime, out, moment_of(unix_seconds), format);
  return out;
}

}  // namespace nibble::jinja
