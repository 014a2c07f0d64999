#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "core/printable.h"

namespace nibble::core {

/// Why a request cannot go on. The value is the exit code of the program.
enum class ErrorKind {
  kFailed = 1,          // the work failed
  kUsage = 2,           // the words of the call were wrong
  kInvalidModel = 3,    // a file of a model, or a data file, is malformed or unsupported
  kOutOfMemory = 4,     // not enough memory for what was asked
  kIo = 5,              // a file cannot be read or written (missing, permission, disk full)
  kIntegrity = 6,       // stored data contradict each other (checksum, resume state)
  kBelowThreshold = 7,  // a measured result is worse than the asked threshold
};

/// Thrown when a request cannot go on. The message is one line: what, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

/// Checks something that a user or a file controls. Never compiled out; the message is only
/// formatted when the check fails. So arguments are what it is made of, not strings made before the
/// check: printable(), values that can be formatted, or lazily().
template <typename... Args>
void require(bool condition, ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  refuse_strings_made_for_the_call<Args...>();
  if (!condition) [[unlikely]] {
    throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace nibble::core
