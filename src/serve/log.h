#pragma once

#include <functional>
#include <string>
#include <type_traits>
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

/// Takes records, from any thread. A record that cannot be written is lost; the server goes on.
class LogSink {
 public:
  template <typename Take>
  requires(!std::is_same_v<std::remove_cvref_t<Take>, LogSink>) LogSink(Take&& take)
      : take_(std::forward<Take>(take)) {}

  void operator()(const LogRecord& record) const noexcept {
    try {
      take_(record);
    } catch (...) {  // the log is where failures are told
    }
  }

 private:
  std::function<void(const LogRecord&)> take_;
};

}  // namespace nibble::serve
