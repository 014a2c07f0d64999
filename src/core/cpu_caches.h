#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "core/cpu_topology.h"

namespace nibble::core {

/// Bytes that `threads` threads on `cpus` can keep in the last caches before the memory, each of
/// which is counted once, and no more caches than threads. 0 where `system` says nothing.
std::int64_t cache_bytes(std::span<const int> cpus, int threads,
                         const std::filesystem::path& system = kSystemTree);

}  // namespace nibble::core
