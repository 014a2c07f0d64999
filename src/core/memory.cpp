#include "core/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Where a version of control groups says what.
struct GroupFiles {
  std::string_view folder;
  std::string_view controllers;  // of the line in /proc/self/cgroup
  std::string_view limit;
  std::string_view used;
  std::string_view cached[2];  // keys in memory.stat
};

constexpr GroupFiles kVersions[] = {
    {"sys/fs/cgroup", "", "memory.max", "memory.current", {"active_file", "inactive_file"}},
    {"sys/fs/cgroup/memory",
     "memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_active_file", "total_inactive_file"}}};

// The number that a file begins with; nullopt for "max" and where there is none.
std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The number behind a word at the beginning of a line.
std::optional<std::int64_t> read_entry(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  std::string rest;
  for (std::int64_t value = 0; file >> word >> value; std::getline(file, rest)) {
    if (word == key) {
      return value;
    }
  }
  return std::nullopt;
}

std::int64_t meminfo(const fs::path& root, std::string_view key, std::int64_t otherwise) {
  const auto kib = read_entry(root / "proc/meminfo", key);
  return kib ? *kib * 1024 : otherwise;
}

// The group of this process: "4:memory:/a/b" or, of version 2, "0::/a/b".
fs::path own_group(const fs::path& root, std::string_view controllers) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second != std::string::npos &&
        std::string_view(line).substr(first + 1, second - first - 1) == controllers) {
      return fs::path(line.substr(second + 1)).relative_path();
    }
  }
  return {};
}

// The least of what `value` says of the groups from the process's own up to the root.
template <typename Value>
std::int64_t least_of_groups(const fs::path& root, Value value) {
  std::int64_t least = kUnlimited;
  for (const GroupFiles& files : kVersions) {
    for (fs::path group = own_group(root, files.controllers);; group = group.parent_path()) {
      const fs::path folder = root / files.folder / group;
      if (const auto limit = read_number(folder / files.limit)) {
        least = std::min(least, value(files, folder, *limit));
      }
      if (group.empty()) {
        break;
      }
    }
  }
  return least;
}

}  // namespace

std::int64_t machine_memory_bytes(const fs::path& root) {
  const std::int64_t memory =
      meminfo(root, "MemTotal:", std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  const std::int64_t allowed = least_of_groups(
      root, [](const GroupFiles&, const fs::path&, std::int64_t limit) { return limit; });
  return std::min(memory, allowed) + meminfo(root, "SwapTotal:", 0);
}

std::int64_t available_memory_bytes(const fs::path& root) {
  const std::int64_t left =
      least_of_groups(root, [](const GroupFiles& files, const fs::path& folder, auto limit) {
        std::int64_t used = read_number(folder / files.used).value_or(0);
        for (const std::string_view cached : files.cached) {
          used -= read_entry(folder / "memory.stat", cached).value_or(0);
        }
        return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used));
      });
  return std::min(left, meminfo(root, "MemAvailable:",
                                std::int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE)));
}

bool machine_has(std::int64_t bytes) {
  static const std::int64_t all = machine_memory_bytes();
  return bytes <= all;
}

void* map_zeros(std::int64_t bytes) {
  if (!machine_has(bytes)) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace nibble::core
