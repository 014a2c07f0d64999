#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "compress/pipeline/pipeline.h"
#include "io/text_file.h"

/// Jobs that are small enough for tests.
namespace nibble::compress {

/// Calibrated on windows that the model writes itself.
inline PipelineOptions small_job(std::int64_t samples, std::int64_t seq_len, int threads) {
  PipelineOptions options;
  options.calibration.samples = samples;
  options.calibration.seq_len = seq_len;
  options.threads = threads;
  return options;
}

/// The text of a file of the sources: "models/demo/texts/calibration.txt".
inline CalibrationText source_text(const std::string& file) {
  const auto path = std::filesystem::path(NIBBLE_SOURCE_DIR) / file;
  return std::make_shared<const std::string>(io::read_text_file(path, 1 << 24));
}

/// Calibrated on the demo model's text.
inline PipelineOptions small_job_on_text(std::int64_t samples, std::int64_t seq_len, int threads) {
  PipelineOptions options = small_job(samples, seq_len, threads);
  options.calibration.texts = {source_text("models/demo/texts/calibration.txt")};
  return options;
}

/// Stops at the first note that holds `part`, as a killed process would. Keeps what it is told.
class Interrupted : public core::ProgressSink {
 public:
  explicit Interrupted(std::string part) : part_(std::move(part)) {}
  void begin(std::string_view job, std::int64_t total) override {
    jobs_.emplace_back(job);
    total_ = total;
    done_ = 0;
  }
  void update(std::int64_t done, std::string_view note) override {
    EXPECT_GE(done, done_);
    EXPECT_LE(done, total_);
    done_ = done;
    notes_.emplace_back(note);
    if (!part_.empty() && note.find(part_) != std::string_view::npos) {
      throw std::runtime_error("interrupted");
    }
  }
  void end() override { EXPECT_EQ(done_, total_); }
  void message(std::string_view line) override { messages_ += std::string(line) + "\n"; }
  const std::vector<std::string>& jobs() const { return jobs_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::string& messages() const { return messages_; }

 private:
  std::string part_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  std::vector<std::string> jobs_;
  std::vector<std::string> notes_;
  std::string messages_;
};

}  // namespace nibble::compress
