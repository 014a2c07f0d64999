#include "core/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include <unistd.h>

namespace nibble::core {
namespace {

// The number in a file of the control group; nullopt for "max" and where there is none.
std::optional<std::int64_t> read_number(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

std::int64_t of_system() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::string unit;
  for (std::int64_t kib = 0; file >> key >> kib; std::getline(file, unit)) {
    if (key == "MemAvailable:") {
      return kib * 1024;
    }
  }
  return std::int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

}  // namespace

std::int64_t available_memory_bytes() {
  const auto limit = read_number("/sys/fs/cgroup/memory.max");
  const auto used = read_number("/sys/fs/cgroup/memory.current");
  const std::int64_t left = limit && used ? std::max<std::int64_t>(0, *limit - *used)
                                          : std::numeric_limits<std::int64_t>::max();
  return std::min(left, of_system());
}

}  // namespace nibble::core
