#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace nibble::serve {

enum class LogLevel { kInfo, kWarning, kError };

/// One line of the server's log. Texts may hold anything: whoever shows them escapes them
/// (core::printable). No prompt, no generated text and no key ever stands in one.
struct LogRecord {
  LogLevel level = LogLevel::kInfo;
  std::string message;
  std::vector<std::pair<std::string, std::string>> fields;
};

/// Takes records, from any thread.
using LogSink = std::function<void(const LogRecord&)>;

}  // namespace nibble::serve
