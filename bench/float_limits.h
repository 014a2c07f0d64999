#pragma once

#include "core/threads.h"

/// What kernels on floats in the caches can do at the most, measured with the given threads. The
/// limits of memory and of 8-bit products are in ops/cpu/limits/machine_limits.h.
namespace nibble::bench {

struct FloatLimits {
  double multiply_adds_per_second = 0;      // float32, fused, from registers
  double cached_read_bytes_per_second = 0;  // of 512 KiB for each thread, which lie in its L2 cache
  /// Of BF16 numbers, in tile registers; 0 where layers of floats do not take them.
  double tile_multiply_adds_per_second = 0;
};

/// Takes some tenths of a second.
FloatLimits measure_float_limits(core::ThreadPool& pool);

}  // namespace nibble::bench
