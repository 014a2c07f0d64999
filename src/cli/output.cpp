#include "cli/output.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace nibble::cli {
namespace {

constexpr int kPatience = 100;  // milliseconds that a note waits for its reader
constexpr int kSignalled = 128;

// Descriptor `fd` takes bytes within `milliseconds`, or says why not.
bool is_writable(int fd, int milliseconds) {
  pollfd polled{fd, POLLOUT, 0};
  return poll(&polled, 1, milliseconds) != 0;
}

}  // namespace

void write_result(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // a pipe that its other owner made non-blocking
      is_writable(STDOUT_FILENO, -1);
    } else if (errno == EPIPE) {
      throw OutputClosed();
    } else if (errno != EINTR) {
      core::fail(core::ErrorKind::kIo, "cannot write to standard output: {}", std::strerror(errno));
    }
  }
}

void write_note_from_handler(std::string_view text) noexcept {
  static_cast<void>(!::write(STDERR_FILENO, text.data(), text.size()));
}

void write_note(std::string_view text) noexcept {
  static std::atomic<bool> somebody_reads{true};
  while (!text.empty()) {
    somebody_reads = is_writable(STDERR_FILENO, somebody_reads ? kPatience : 0);
    if (!somebody_reads) {
      return;
    }
    // No more than a pipe takes without waiting when it takes anything.
    const ssize_t written =
        ::write(STDERR_FILENO, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

void prepare_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) == -1) {
      // The lowest free number is `fd`. The wrong way round: reading, or writing, fails.
      static_cast<void>(::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void end_by_closed_output() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  std::_Exit(kSignalled + SIGPIPE);
}

}  // namespace nibble::cli
