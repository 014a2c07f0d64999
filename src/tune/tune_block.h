#pragma once

#include <cstdint>

#include "compress/block/compressed_block.h"
#include "core/progress.h"
#include "ops/cpu/cpu_ops.h"
#include "tune/block_task.h"
#include "tune/loss_curve.h"
#include "tune/tuning_device.h"
#include "tune/tuning_options.h"
#include "tune/window_batches.h"

namespace nibble::tune {

/// What the judging windows said: |output - target|^2 over |target|^2.
struct BlockGain {
  double before = 0;
  double after = 0;
  std::int64_t epochs = 0;  // that were run
};

/// BQPO (GQSA, arXiv 2412.17560, section 3.4; EfficientQAT, 2407.11062, "Block-AP"): trains the
/// kept weights of a block, which are rounded in every step, and their scales, so that the block's
/// outputs come near to those of the float block. The best epoch by the judging windows is taken,
/// which may be none. The result does not depend on the number of threads. `ops` reads the windows.
compress::CompressedBlock tune_block(const BlockTask& task, const WindowBatches& windows,
                                     const TuningOptions& options, TuningDevice& device,
                                     ops::cpu::CpuOps& ops, LossCurve& curve,
                                     core::ProgressSink& progress, BlockGain& gain);

}  // namespace nibble::tune
