#pragma once

#include "core/threads.h"
#include "engine/runner.h"

namespace nibble::engine {

/// What a CPU can do at the most with these threads; takes about half a second.
DeviceLimits measure_cpu_limits(core::ThreadPool& pool);

}  // namespace nibble::engine
