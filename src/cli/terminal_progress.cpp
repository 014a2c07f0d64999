#include "cli/terminal_progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace nibble::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kBarWidth = 24;

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  if (whole < 60) {
    return fmt::format("{}s", whole);
  }
  return whole < 3600 ? fmt::format("{}m{:02}s", whole / 60, whole % 60)
                      : fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

}  // namespace

TerminalProgress::TerminalProgress(bool quiet)
    : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void TerminalProgress::begin(std::string_view job, std::int64_t total) {
  job_ = job;
  total_ = std::max<std::int64_t>(1, total);
  start_ = shown_ = Clock::now();
}

std::string TerminalProgress::line(std::int64_t done, std::string_view note) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const std::string left =
      done > 0
          ? ", " +
                duration(seconds * static_cast<double>(total_ - done) / static_cast<double>(done)) +
                " left"
          : "";  // nothing to tell it from yet
  const std::int64_t filled = kBarWidth * done / total_;
  const std::string bar =
      terminal_
          ? fmt::format(" [{:<{}}]", std::string(static_cast<std::size_t>(filled), '#'), kBarWidth)
          : "";
  return fmt::format("{}{} {}/{} {} elapsed{} {}", job_, bar, done, total_, duration(seconds), left,
                     note);
}

void TerminalProgress::update(std::int64_t done, std::string_view note) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? 100ms : 2000ms;
  if (quiet_ || (now - shown_ < pause && done < total_) || (!terminal_ && now - start_ < pause)) {
    return;
  }
  shown_ = now;
  fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", line(done, note),
             terminal_ ? "" : "\n");
  std::fflush(stderr);
}

void TerminalProgress::end() {
  if (!quiet_ && terminal_) {
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
  }
}

void TerminalProgress::message(std::string_view text) {
  if (!quiet_) {
    fmt::print(stderr, "{}{}\n", terminal_ ? "\r\033[K" : "", text);
  }
}

}  // namespace nibble::cli
