#pragma once

#include <chrono>
#include <string>

#include "cli/progress_line.h"
#include "core/progress.h"

namespace nibble::cli {

/// Progress on stderr: a bar that redraws itself on a terminal and is never wider, plain lines at
/// most every two seconds elsewhere, nothing when quiet.
class TerminalProgress final : public core::ProgressSink {
 public:
  explicit TerminalProgress(bool quiet);

  void begin_part(std::string_view name, std::int64_t number, std::int64_t count) override;
  void begin(std::string_view job, std::int64_t total) override;
  void skip(std::int64_t done) override;
  void update(std::int64_t done, std::string_view note) override;
  void end() override;
  void message(std::string_view line) override;

 private:
  using Clock = std::chrono::steady_clock;

  ProgressState state(std::int64_t done, std::string_view note) const;

  bool quiet_;
  bool terminal_;
  std::string part_;
  std::int64_t number_ = 0;
  std::int64_t parts_ = 0;
  Clock::time_point part_start_;
  std::int64_t finished_parts_ = 0;
  double finished_seconds_ = 0;  // of the finished parts
  std::string job_;
  std::int64_t total_ = 1;
  Clock::time_point start_;
  Clock::time_point shown_;
  std::int64_t skipped_ = 0;  // steps
  Clock::time_point skipped_until_;
};

}  // namespace nibble::cli
