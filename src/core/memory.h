#pragma once

#include <cstdint>

namespace nibble::core {

/// Bytes that this process may still take without swapping, as the system says: what it has
/// available (MemAvailable), or what the limit of its control group leaves where that is less.
std::int64_t available_memory_bytes();

}  // namespace nibble::core
