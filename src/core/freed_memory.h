#pragma once

namespace nibble::core {

/// Has the allocator give back the free end of each of its arenas from 128 KiB on, and take blocks
/// of 4 MiB and more straight from the system. By itself it raises both bounds, up to 64 MiB an
/// arena, with the largest block that was ever freed. For programs that run long; call it before
/// there are threads.
void keep_little_freed_memory();

/// Gives back the pages that are free between blocks in use.
void release_freed_memory();

}  // namespace nibble::core
