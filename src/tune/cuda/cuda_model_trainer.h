#pragma once

#include <memory>

#include "core/threads.h"
#include "models/network.h"
#include "tune/cuda/training_gpu.h"
#include "tune/tuning_device.h"
#include "tune/tuning_options.h"
#include "tune/window_batches.h"

namespace nibble::tune::cuda {

inline constexpr std::int64_t kLogitRows = 1024;  // of logits that are held at a time

/// Codes and scales of all blocks and the weights of both models stay on the GPU. Only the inputs
/// of blocks are kept of a forward pass: each block is computed a second time on the way back.
std::unique_ptr<ModelTrainer> make_cuda_model_trainer(const models::Network& compressed,
                                                      const models::Network& teacher,
                                                      const WindowBatches& windows,
                                                      const TuningOptions& options,
                                                      TrainingGpu& gpu, core::ThreadPool& pool);

}  // namespace nibble::tune::cuda
