#pragma once

#include <memory>

#include "models/network.h"
#include "ops/cpu/cpu_ops.h"
#include "tune/tuning_device.h"
#include "tune/tuning_options.h"
#include "tune/window_batches.h"

namespace nibble::tune {

/// On the threads of `ops`. The activations of all blocks are kept where half of the free memory
/// takes them (or options.memory), else only the states between blocks: the bits are the same.
std::unique_ptr<ModelTrainer> make_cpu_model_trainer(const models::Network& compressed,
                                                     const models::Network& teacher,
                                                     const WindowBatches& windows,
                                                     const TuningOptions& options,
                                                     ops::cpu::CpuOps& ops);

}  // namespace nibble::tune
