#include "core/memory_reserve.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace nibble::core {
namespace {

// Nobody writes to it, so that it takes addresses and, as a rule, no pages. A JSON object takes up
// to 48 bytes for each member while it is destroyed: this is enough for those of all tokenizers
// that we know.
constexpr std::size_t kReserveBytes = 16 << 20;

std::atomic<void*> reserve{nullptr};

[[noreturn]] void fail_with_reserve() {
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

}  // namespace

void keep_memory_reserve() {
  if (reserve.load() != nullptr) {
    return;
  }
  std::set_new_handler(fail_with_reserve);
  std::free(reserve.exchange(std::malloc(kReserveBytes)));  // another thread may have been quicker
}

}  // namespace nibble::core
