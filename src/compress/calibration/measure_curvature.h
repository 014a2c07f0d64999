#pragma once

#include <cstdint>
#include <map>

#include "compress/calibration/calibration_inputs.h"
#include "compress/calibration/output_curvature.h"
#include "core/progress.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// The curvature of every set of linear layers of the blocks, by set id, and with `of_output` of
/// the output layer, from the gradients of tokens that the model draws (sample_gradients, which
/// says what is in memory and what is thrown).
std::map<int, SetCurvature> measure_curvature(const models::Network& network,
                                              const CalibrationInputs& inputs, std::uint64_t seed,
                                              ops::cpu::CpuOps& ops, core::ProgressSink& progress,
                                              bool of_output = false);

}  // namespace nibble::compress
