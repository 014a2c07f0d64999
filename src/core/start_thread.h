#pragma once

#include <functional>
#include <thread>

namespace nibble::core {

/// A thread of its own that runs `run`, which must not throw. Throws kOutOfMemory when the system
/// refuses.
std::thread start_thread(std::function<void()> run);

}  // namespace nibble::core
