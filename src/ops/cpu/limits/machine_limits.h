#pragma once

#include "core/threads.h"

namespace nibble::ops::cpu {

/// What this machine can do at the most, measured with the given threads.
struct MachineLimits {
  double read_bytes_per_second = 0;     // streaming a buffer far larger than the caches
  double multiply_adds_per_second = 0;  // 8-bit products into 32-bit sums, from registers
};

/// Takes about half a second.
MachineLimits measure_machine_limits(core::ThreadPool& pool);

}  // namespace nibble::ops::cpu
