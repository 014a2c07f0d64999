#include "cli/terminal_progress.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output.h"
#include "cli/terminal_width.h"
#include "core/error.h"

namespace nibble::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kClearLine = "\r\033[K";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

TerminalProgress::TerminalProgress(bool quiet)
    : quiet_(quiet), terminal_(terminal_columns(STDERR_FILENO).has_value()) {}

void TerminalProgress::begin_part(std::string_view name, std::int64_t number, std::int64_t count) {
  if (parts_ > 0) {
    ++finished_parts_;
    finished_seconds_ += seconds_since(part_start_);
  }
  part_ = core::printable(name);
  number_ = number;
  parts_ = count;
  part_start_ = Clock::now();
}

void TerminalProgress::begin(std::string_view job, std::int64_t total) {
  job_ = job;
  total_ = std::max<std::int64_t>(1, total);
  start_ = shown_ = skipped_until_ = Clock::now();
  skipped_ = 0;
}

void TerminalProgress::skip(std::int64_t done) {
  skipped_ = done;
  skipped_until_ = Clock::now();
}

ProgressState TerminalProgress::state(std::int64_t done, std::string_view note) const {
  ProgressState state{part_, number_, parts_, job_, done, total_, seconds_since(start_),
                      {},    {},      {}};
  state.note = note;
  if (done > skipped_) {
    state.left = seconds_since(skipped_until_) * static_cast<double>(total_ - done) /
                 static_cast<double>(done - skipped_);
  }
  if (finished_parts_ > 0) {
    const double each = finished_seconds_ / static_cast<double>(finished_parts_);
    state.left_in_all = std::max(state.left.value_or(0), each - seconds_since(part_start_)) +
                        each * static_cast<double>(parts_ - number_);
  }
  return state;
}

void TerminalProgress::update(std::int64_t done, std::string_view note) {
  const auto now = Clock::now();
  const auto pause = terminal_ ? 100ms : 2000ms;
  if (quiet_ || (now - shown_ < pause && done < total_) || (!terminal_ && now - start_ < pause)) {
    return;
  }
  shown_ = now;
  // The last column stays free: some terminals go on to the next line when it is written.
  const std::size_t columns = terminal_columns(STDERR_FILENO).value_or(kPageColumns) - 1;
  write_note(terminal_ ? kClearLine + bar_progress(state(done, note), columns)
                       : plain_progress(state(done, note)) + "\n");
}

void TerminalProgress::end() {
  if (!quiet_ && terminal_) {
    write_note(kClearLine);
  }
}

void TerminalProgress::message(std::string_view text) {
  if (!quiet_) {
    write_note(fmt::format("{}{}\n", terminal_ ? kClearLine : "", text));
  }
}

}  // namespace nibble::cli
