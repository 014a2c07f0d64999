#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

#include "io/mapped_file.h"
#include "io/mapping_registry.h"

namespace nibble::io {
namespace {

// What the handler reads. Everything is lock-free, so reading it inside a signal handler is
// allowed.
std::atomic<MappedRegion*> g_regions{nullptr};
std::atomic<std::uintptr_t> g_page_bytes{4096};
struct sigaction g_previous = {};

static_assert(std::atomic<MappedRegion*>::is_always_lock_free);
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

MappedRegion* find_region(std::uintptr_t address) {
  for (MappedRegion* region = g_regions.load(); region != nullptr; region = region->next) {
    const std::uintptr_t begin = region->begin.load();
    const std::uintptr_t end = region->end.load();
    if (begin != 0 && address >= begin && address < end && region->begin.load() == begin) {
      return region;
    }
  }
  return nullptr;
}

// A truncated file has lost everything from some page on, so zeros replace the rest of the mapping
// at once: one signal for a file of any size. mmap is a plain system call on Linux.
bool replace_by_zeros(MappedRegion& region, std::uintptr_t address) {
  const std::uintptr_t page = address & ~(g_page_bytes.load() - 1);
  const std::size_t length = region.end.load() - page;
  void* at = reinterpret_cast<void*>(page);  // NOLINT(performance-no-int-to-ptr)
  region.damaged.store(true);
  return ::mmap(at, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
                0) != MAP_FAILED;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
    return;
  }
  if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
    return;
  }
  // Back to the default: a fault repeats when we return and ends the process as if we were not
  // here.
  ::signal(signal, SIG_DFL);
  if (info->si_code <= 0) {  // sent by kill(): nothing would repeat
    ::raise(signal);
  }
}

void handle_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  MappedRegion* region = info->si_code > 0 ? find_region(address) : nullptr;
  if (region == nullptr || !replace_by_zeros(*region, address)) {
    pass_on(signal, info, context);
  }
  errno = saved_errno;
}

MappedRegion* take_free_region() {
  for (MappedRegion* region = g_regions.load(); region != nullptr; region = region->next) {
    bool expected = false;
    if (region->taken.compare_exchange_strong(expected, true)) {
      return region;
    }
  }
  auto* region = new MappedRegion;  // stays in the list for good
  region->taken.store(true);
  region->next = g_regions.load();
  while (!g_regions.compare_exchange_weak(region->next, region)) {
  }
  return region;
}

}  // namespace

MappedRegion* register_mapping(const void* begin, std::size_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  g_page_bytes.store(page);
  MappedRegion* region = take_free_region();
  region->damaged.store(false);
  region->end.store((address + size + page - 1) & ~(page - 1));
  region->begin.store(address);
  return region;
}

void unregister_mapping(MappedRegion* region) {
  region->begin.store(0);
  region->end.store(0);
  region->taken.store(false);
}

void install_truncation_guard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = handle_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &g_previous);
  });
}

}  // namespace nibble::io
