#include "cli/log_line.h"

#include <fmt/format.h>

#include "core/ordered_json.h"
#include "core/printable.h"
#include "serve/json_text.h"

namespace nibble::cli {
namespace {

// Bytes of a value: the longest at which the line is short enough is taken.
constexpr std::size_t kValueBytes[] = {kMaxLogBytes, 200, 100, 50, 24};

std::string_view level_name(serve::LogLevel level) {
  switch (level) {
    case serve::LogLevel::kInfo:
      return "info";
    case serve::LogLevel::kWarning:
      return "warning";
    case serve::LogLevel::kError:
      return "error";
  }
  return "";
}

std::string text_line(const serve::LogRecord& record, std::string_view time,
                      std::size_t value_bytes) {
  std::string line = fmt::format("{} {} {}", time, level_name(record.level),
                                 core::printable(record.message, value_bytes));
  for (const auto& [name, value] : record.fields) {
    line += fmt::format(" {}={}", name, core::printable(value, value_bytes));
  }
  return line + "\n";
}

std::string json_line(const serve::LogRecord& record, std::string_view time,
                      std::size_t value_bytes) {
  serve::OrderedJson object;
  object["time"] = time;
  object["level"] = level_name(record.level);
  object["message"] = core::printable(record.message, value_bytes).str();
  for (const auto& [name, value] : record.fields) {
    object[name] = core::printable(value, value_bytes).str();
  }
  return serve::to_text(object) + "\n";
}

}  // namespace

std::string log_line(const serve::LogRecord& record, std::string_view time, bool json) {
  std::string line;
  for (const std::size_t value_bytes : kValueBytes) {
    line = json ? json_line(record, time, value_bytes) : text_line(record, time, value_bytes);
    if (line.size() <= kMaxLogBytes) {
      break;
    }
  }
  return line;
}

}  // namespace nibble::cli
