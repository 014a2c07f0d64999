#pragma once

#include "core/threads.h"
#include "models/model.h"
#include "ops/cpu_options.h"
#include "ops/cuda/cuda_ops.h"

namespace nibble::engine {

/// Makes all layers of a model ready for operators of a GPU, packed by the threads of `pool`. What
/// was read of a file is given back at once. Throws kOutOfMemory, saying what would fit, before
/// anything is uploaded; kUsage for a layer that the GPU does not run; kIo when a file has been
/// truncated.
void prepare_layers(const models::Model& model, ops::cuda::CudaOps& ops, core::ThreadPool& pool);

/// The type of what stands between the layers of a stack: float32 where they are all float32, or
/// activations are to be, else float16.
ops::cuda::MatrixType matrices_between(const models::Stack& stack,
                                       ops::ActivationPrecision activations);

}  // namespace nibble::engine
