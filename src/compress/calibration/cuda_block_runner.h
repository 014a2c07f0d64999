#pragma once

#include <memory>

#include "compress/backend/backend.h"
#include "compress/calibration/block_runner.h"

namespace nibble::compress::cuda {

/// The calibration windows on a GPU, some at a time; their hidden states stay there. Float32
/// products (cuBLAS), no TF32. Throws kOutOfMemory, with how many windows would fit.
std::unique_ptr<BlockRunner> make_cuda_block_runner(CudaContext& context,
                                                    const models::Network& network,
                                                    const CalibrationWindows& windows,
                                                    ops::cpu::CpuOps& cpu, bool keeps_original);

}  // namespace nibble::compress::cuda
