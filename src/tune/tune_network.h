#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/progress.h"
#include "formats/packed_weight.h"
#include "models/network.h"
#include "tune/loss_curve.h"
#include "tune/tuning_device.h"
#include "tune/tuning_options.h"
#include "tune/window_batches.h"

namespace nibble::tune {

/// What a whole model learned.
struct ModelGain {
  double before = 0;  // of the loss, on the judging windows
  double after = 0;
};

/// E2E-OQP (GQSA, arXiv 2412.17560, section 3.4; EfficientQAT, 2407.11062, "E2E-QP"): trains the
/// scales (and zero points) of all layers in blocks, through the whole model, whose codes stay, on
/// the labels of the text and the logits of `teacher`. With options.model.code_rate it trains
/// codes, too, straight through their rounding: quantization-aware training with
/// distillation. Returns the layers; none where the judging windows gained nothing. Goes on from
/// the state in `state`, and keeps one there every options.checkpoint steps. The result does not
/// depend on the number of threads.
std::map<std::string, formats::PackedWeight> tune_network(
    const models::Network& compressed, const models::Network& teacher, const WindowBatches& windows,
    const TuningOptions& options, TuningDevice& device, const std::filesystem::path& state,
    LossCurve& curve, core::ProgressSink& progress, ModelGain& gain);

}  // namespace nibble::tune
