#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/progress.h"
#include "eval/metrics/growing_histogram.h"
#include "models/model.h"

namespace nibble::eval {

/// From this size on an activation is an outlier (LLM.int8(), arXiv 2208.07339, section 3.2).
inline constexpr float kOutlier = 6.0f;

/// What a layer reads on a text.
struct ActivationProfile {
  std::int64_t tokens = 0;             // that reached the layer; an expert sees only its own
  GrowingHistogram histogram;          // of all values
  std::vector<float> channel_maximum;  // [k]: largest |x| of each input
};

struct ActivationOptions {
  std::int64_t seq_len = 0;     // tokens of a window; a last partial window is dropped
  std::int64_t max_tokens = 0;  // 0: the whole text
  int threads = 0;
};

/// Runs the windows of a text up to the block of `layer` (a name of ops::Linear), with float
/// activations but in W8A8 layers.
/// Throws kUsage for a layer that is not in the blocks, and for less text than one window.
ActivationProfile profile_activations(const models::Model& model, const std::string& layer,
                                      std::span<const std::int32_t> tokens,
                                      const ActivationOptions& options,
                                      core::ProgressSink& progress);

/// Channels whose maximum is at least `threshold`, largest first.
std::vector<std::int64_t> outlier_channels(const ActivationProfile& profile,
                                           float threshold = kOutlier);

}  // namespace nibble::eval
