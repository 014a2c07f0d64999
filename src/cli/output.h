#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"

namespace nibble::cli {

/// Nobody reads standard output any more (`nibble ... | head -1`). The program ends in silence.
class OutputClosed : public core::Error {
 public:
  OutputClosed() : Error(core::ErrorKind::kIo, "nobody reads standard output any more") {}
};

/// Writes results to standard output, all of them before it returns. Throws kIo, and OutputClosed.
void write_result(std::string_view text);

template <typename... Args>
void print_result(fmt::format_string<Args...> format, Args&&... args) {
  write_result(fmt::format(format, std::forward<Args>(args)...));
}

/// Writes what people read beside the results (errors, progress, logs) to standard error. Text that
/// cannot be written, or that nobody takes for a while, is lost: the work goes on.
void write_note(std::string_view text) noexcept;

/// The same where only async-signal-safe functions may be called: in handlers of signals.
void write_note_from_handler(std::string_view text) noexcept;

template <typename... Args>
void print_note(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    write_note(fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {  // no memory to say it
  }
}

/// Call it first of all. Standard descriptors that are closed are opened, so that no other file
/// gets their number; what uses them still fails. Writing to a pipe that nobody reads is an error,
/// not the end by a signal.
void prepare_standard_streams();

/// Ends as a program that a closed pipe ended: in silence, by SIGPIPE.
[[noreturn]] void end_by_closed_output();

}  // namespace nibble::cli
