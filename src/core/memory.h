#pragma once

#include <cstdint>
#include <filesystem>

namespace nibble::core {

/// Bytes that a process can have at the most, as the system says: memory and swap, or what the
/// limits of its control groups (versions 1 and 2) and swap allow where that is less. The files of
/// the system lie under `root`.
std::int64_t machine_memory_bytes(const std::filesystem::path& root = "/");

/// Bytes that this process may still take without swapping: what the system has available
/// (MemAvailable), or what the limits of its control groups leave where that is less. What the
/// groups use to cache files is free.
std::int64_t available_memory_bytes(const std::filesystem::path& root = "/");

/// Whether the machine has as much memory as that, be it in use. To be asked before an allocation:
/// some systems promise what they do not have, and end the process that takes it.
bool machine_has(std::int64_t bytes);

/// Pages of zeros of this process, which munmap() gives back; null where the machine has not so
/// much memory, or the system refuses.
void* map_zeros(std::int64_t bytes);

}  // namespace nibble::core
