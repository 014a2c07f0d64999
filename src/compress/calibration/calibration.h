#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/progress.h"
#include "models/model.h"

namespace nibble::compress {

/// Token windows that the model's activations are measured on.
using CalibrationWindows = std::vector<std::vector<std::int32_t>>;

/// A whole text, UTF-8. Copies share it.
using CalibrationText = std::shared_ptr<const std::string>;

struct CalibrationOptions {
  std::vector<CalibrationText> texts;  // empty: the model writes its own text
  std::int64_t samples = 128;          // windows
  std::int64_t seq_len = 2048;         // tokens of a window, cut to what the model was made for
  std::uint64_t seed = 0;              // for text that the model writes
  int threads = 0;
};

/// The first windows of the texts, taken from each text in turn; texts are tokenized whole, without
/// special tokens, and a last partial window is dropped. Throws kUsage when there is not one
/// window.
CalibrationWindows read_calibration(const models::Model& model, const CalibrationOptions& options);

/// Text sampled from the model itself at temperature 1 from its start token: data-free calibration
/// (as in LLM-QAT, arXiv 2305.17888, section 3.1). At most kSampledTokens tokens in all.
inline constexpr std::int64_t kSampledTokens = 16384;
CalibrationWindows sample_calibration(const models::Model& model, const CalibrationOptions& options,
                                      core::ProgressSink& progress);

}  // namespace nibble::compress
