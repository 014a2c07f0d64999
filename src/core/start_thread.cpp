#include "core/start_thread.h"

#include <system_error>
#include <utility>

#include "core/error.h"

namespace nibble::core {

std::thread start_thread(std::function<void()> run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    fail(ErrorKind::kOutOfMemory, "cannot start a thread: {}", error.code().message());
  }
}

}  // namespace nibble::core
