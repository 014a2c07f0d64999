#include "engine/cpu_limits.h"

#include <fmt/format.h>

#include "core/cpu_caches.h"
#include "ops/cpu/limits/machine_limits.h"

namespace nibble::engine {

DeviceLimits measure_cpu_limits(core::ThreadPool& pool) {
  const ops::cpu::MachineLimits limits = ops::cpu::measure_machine_limits(pool);
  return {fmt::format("cpu, {} threads", pool.size()), limits.read_bytes_per_second,
          limits.multiply_adds_per_second, core::cache_bytes(core::allowed_cpus(), pool.size())};
}

}  // namespace nibble::engine
