#pragma once

#include <chrono>
#include <string>

#include "core/progress.h"

namespace nibble::cli {

/// Progress on stderr: a bar that redraws itself on a terminal, plain lines at most every two
/// seconds elsewhere, nothing when quiet.
class TerminalProgress final : public core::ProgressSink {
 public:
  explicit TerminalProgress(bool quiet);

  void begin(std::string_view job, std::int64_t total) override;
  void update(std::int64_t done, std::string_view note) override;
  void end() override;
  void message(std::string_view line) override;

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(std::int64_t done, std::string_view note) const;

  bool quiet_;
  bool terminal_;
  std::string job_;
  std::int64_t total_ = 0;
  Clock::time_point start_;
  Clock::time_point shown_;
};

}  // namespace nibble::cli
