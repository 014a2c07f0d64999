#pragma once

#include <vector>

#include "compress/calibration/calibration_inputs.h"
#include "models/network.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::compress {

/// The influence of each block of a decoder, BI = 1 - E[cos(x, y)]: x a token's state before the
/// block, y behind it, the mean over all tokens (ShortGPT, arXiv 2403.03853, equation 1). A block
/// that changes only the length of states has 0. One block is in memory at a time.
std::vector<double> block_influence(const models::Network& network, const CalibrationInputs& inputs,
                                    ops::cpu::CpuOps& ops);

}  // namespace nibble::compress
