#include "core/cpu_caches.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

constexpr int kMostCaches = 16;  // of one CPU

struct Cache {
  int level = 0;
  std::int64_t bytes = 0;
  std::string cpus;  // that share it: tells it from others
};

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "32768K"; nullopt for anything else.
std::optional<std::int64_t> kibibytes(const std::string& text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  const bool good = error == std::errc() && size > 0 && size < (std::int64_t{1} << 40) &&
                    std::string_view(end) == "K";
  return good ? std::optional(size * 1024) : std::nullopt;
}

// The cache of the highest level that holds data.
Cache last_cache(const fs::path& caches) {
  Cache last;
  for (int i = 0; i < kMostCaches; ++i) {
    const fs::path cache = caches / ("index" + std::to_string(i));
    const std::string level = first_word(cache / "level");
    const auto bytes = kibibytes(first_word(cache / "size"));
    if (level.size() != 1 || !bytes || first_word(cache / "type") == "Instruction") {
      continue;
    }
    if (level[0] - '0' > last.level) {
      last = {level[0] - '0', *bytes, first_word(cache / "shared_cpu_list")};
    }
  }
  return last;
}

}  // namespace

std::int64_t cache_bytes(std::span<const int> cpus, int threads, const fs::path& system) {
  std::map<std::string, std::int64_t> caches;  // by the CPUs that share them
  for (const int cpu : cpus) {
    const Cache cache = last_cache(system / "cpu" / ("cpu" + std::to_string(cpu)) / "cache");
    if (cache.bytes > 0) {
      caches[cache.cpus] = cache.bytes;
    }
  }
  std::vector<std::int64_t> sizes;
  for (const auto& [sharers, bytes] : caches) {
    sizes.push_back(bytes);
  }
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.resize(std::min(sizes.size(), static_cast<std::size_t>(std::max(threads, 1))));
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

}  // namespace nibble::core
