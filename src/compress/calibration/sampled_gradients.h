#pragma once

#include <cstdint>
#include <string>

#include "compress/calibration/calibration_inputs.h"
#include "core/progress.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/gradient/gradient_ops.h"

namespace nibble::compress {

/// Rows of logits that are held at a time: vocabularies are large.
inline constexpr std::int64_t kLogitRows = 128;

/// Runs every window (or pack of texts) forward and backward through the model; `observer` sees the
/// input of every set of linear layers and the gradient of its output, blocks from the last to the
/// first, the decoder's before the encoder's (and the output layer or head). The loss is the
/// negative log-likelihood, summed over positions, of what the model itself draws (from `seed`), so
/// that expectations of products of gradients are those of the Fisher matrix and do not depend on
/// how well the model knows the text:
///   a decoder            tokens, at each position
///   a classifier         labels, of texts or tokens; 0 or 1 for each label where several are
///   right;
///                        for a regression numbers, N(output, 1)
///   a masked LM          tokens, at each position
///   an encoder alone     states, N(state, 1) for each number
/// One block's activations are in memory at a time, and the inputs of all blocks for one window.
///
/// Throws kUsage for a mixture of experts, kFailed for gradients that are not finite.
void sample_gradients(const models::Network& network, const CalibrationInputs& inputs,
                      std::uint64_t seed, ops::cpu::CpuOps& ops,
                      const ops::gradient::GradientOps::Observer& observer,
                      const std::string& title, core::ProgressSink& progress);

}  // namespace nibble::compress
