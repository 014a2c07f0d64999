#pragma once

namespace nibble::core {

/// Keeps some memory for what must be done when there is no more: destructors that run then may
/// take memory (those of JSON values do), and one that finds none ends the process. The first `new`
/// that fails gives the reserve back, and fails all the same. Called again, it sees to it that
/// there is a reserve again. Any thread.
void keep_memory_reserve();

}  // namespace nibble::core
