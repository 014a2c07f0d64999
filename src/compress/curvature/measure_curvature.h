#pragma once

#include <cstdint>
#include <map>

#include "compress/calibration.h"
#include "compress/curvature/output_curvature.h"
#include "core/progress.h"
#include "models/decoder.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// Rows of logits that are held at a time: vocabularies are large.
inline constexpr std::int64_t kLogitRows = 128;

/// Runs every window forward and backward through the model and returns the curvature of every set
/// of linear layers of its blocks, by set id. The loss is the negative log-likelihood of tokens
/// that the model itself draws at each position (from `seed`), so that the expectation is the
/// Fisher matrix and does not depend on how well the model knows the text. One block's activations
/// are in memory at a time, and the inputs of all blocks for one window.
///
/// Throws kUsage for a mixture of experts, kFailed for gradients that are not finite.
std::map<int, SetCurvature> measure_curvature(const models::Decoder& decoder,
                                              const CalibrationWindows& windows, std::uint64_t seed,
                                              ops::cpu::CpuOps& ops, core::ProgressSink& progress);

}  // namespace nibble::compress
