#pragma once

#include <cstdint>
#include <filesystem>

#include "compress/pipeline.h"

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

/// Calibrated on the demo model's text.
inline PipelineOptions small_job_on_text(std::int64_t samples, std::int64_t seq_len, int threads) {
  PipelineOptions options = small_job(samples, seq_len, threads);
  options.calibration.texts = {std::filesystem::path(NIBBLE_SOURCE_DIR) /
                               "models/demo/texts/calibration.txt"};
  return options;
}

}  // namespace nibble::compress
