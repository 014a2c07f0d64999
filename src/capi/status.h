#pragma once

#include <array>
#include <mutex>
#include <string_view>

#include <nibble/nibble.h>

namespace nibble::capi {

/// Thrown where a call ends because it was asked to.
struct Cancelled {};

/// One line that says why a call failed. Setting it takes no memory: that may be what is missing.
class ErrorText {
 public:
  void set(std::string_view text) noexcept;
  const char* text() const { return text_.data(); }

 private:
  std::array<char, 512> text_{};
};

/// Of the calling thread.
ErrorText& thread_error();

/// The status of the exception that is being handled; `text` gets its line.
nibble_status status_of_exception(ErrorText& text) noexcept;

/// Runs `work`; what it throws becomes a status and the text of this thread.
template <typename Work>
nibble_status guarded(Work work) noexcept {
  try {
    work();
    return NIBBLE_OK;
  } catch (...) {
    return status_of_exception(thread_error());
  }
}

}  // namespace nibble::capi
