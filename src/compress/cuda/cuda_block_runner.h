#pragma once

#include <memory>

#include "compress/block_runner.h"
#include "compress/cuda/cuda_context.h"

namespace nibble::compress::cuda {

/// The calibration windows on a GPU, some at a time; their hidden states stay there. Float32
/// products (cuBLAS), no TF32. Throws kOutOfMemory, with how many windows would fit.
std::unique_ptr<BlockRunner> make_cuda_block_runner(CudaContext& context,
                                                    const models::Network& network,
                                                    const CalibrationWindows& windows,
                                                    ops::cpu::CpuOps& cpu, bool keeps_original);

/// Bytes that a block takes on the GPU at the most, without hidden states: its weights in float32,
/// activations of the windows that run together, Hessians and one of them being factored.
std::int64_t block_gpu_memory(const models::Network& network, const CalibrationWindows& windows,
                              bool keeps_original);

}  // namespace nibble::compress::cuda
