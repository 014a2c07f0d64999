#pragma once

#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nibble::testing {

/// A program whose input, output and errors are one terminal.
class PseudoTerminal {
 public:
  PseudoTerminal(const std::vector<std::string>& words, unsigned short columns) {
    winsize size = {24, columns, 0, 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      std::vector<char*> arguments;
      for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));
      }
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
  }
  ~PseudoTerminal() {
    if (!ended_ && pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(terminal_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  /// Everything that was shown so far.
  const std::string& shown() const { return shown_; }

  /// Reads until `part` was shown; false when the program ends without it, or after a minute.
  bool wait_for(const std::string& part) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (shown_.find(part) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end || !read_some()) {
        return false;
      }
    }
    return true;
  }

  void type(const std::string& keys) {
    [[maybe_unused]] const auto written = write(terminal_, keys.data(), keys.size());
  }

  void resize(unsigned short columns) {
    const winsize size = {24, columns, 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
  }

  /// Reads to the end of the program: its exit code, or -signal.
  int wait_for_end() {
    while (read_some()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  // False at the end.
  bool read_some() {
    char buffer[4096];
    pollfd ready = {terminal_, POLLIN, 0};
    if (poll(&ready, 1, 1000) == 0) {
      return true;
    }
    const ssize_t count = read(terminal_, buffer, sizeof(buffer));
    if (count <= 0) {
      return count < 0 && errno == EINTR;  // EIO: the other side is closed
    }
    shown_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  bool ended_ = false;
  std::string shown_;
};

}  // namespace nibble::testing
