#include "core/cpu_topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include <sched.h>

namespace nibble::core {
namespace {

constexpr int kMostCpus = 1 << 16;

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A number at the front of `text`, which loses it; -1 when there is none.
int take_number(std::string_view& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value >= kMostCpus) {
    return -1;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

// Whole CPUs granted by cgroup v2, or a large number where there is no limit.
int cgroup_cpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  double granted = 0;
  if (!(file >> quota >> period) || period <= 0) {
    return kMostCpus;
  }
  const auto [end, error] = std::from_chars(quota.data(), quota.data() + quota.size(), granted);
  if (error != std::errc()) {
    return kMostCpus;  // "max"
  }
  return static_cast<int>(std::clamp<double>(granted / period, 1, kMostCpus));
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  std::vector<cpu_set_t> mask(kMostCpus / CPU_SETSIZE);  // of any machine
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  if (sched_getaffinity(0, bytes, mask.data()) == 0) {
    for (int cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.data())) {
        cpus.push_back(cpu);
      }
    }
  }
  if (cpus.empty()) {
    cpus.push_back(0);
  }
  return cpus;
}

std::vector<int> one_cpu_per_core(std::span<const int> cpus, const std::filesystem::path& system) {
  std::vector<int> chosen;
  std::set<int> cores;  // known by their first hardware thread
  for (const int cpu : cpus) {
    const std::filesystem::path topology =
        system / "cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    const std::vector<int> siblings = parse_cpu_list(first_line(topology / "thread_siblings_list"));
    if (cores.insert(siblings.empty() ? cpu : siblings.front()).second) {
      chosen.push_back(cpu);
    }
  }
  return chosen;
}

std::vector<int> memory_nodes(const std::filesystem::path& system) {
  std::vector<int> nodes = parse_cpu_list(first_line(system / "node" / "online"));
  return nodes.empty() ? std::vector<int>{0} : nodes;
}

std::vector<int> cpus_of_node(int node, const std::filesystem::path& system) {
  return parse_cpu_list(first_line(system / "node" / ("node" + std::to_string(node)) / "cpulist"));
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::set<int> cpus;
  do {
    const int first = take_number(text);
    const int last = take(text, '-') ? take_number(text) : first;
    if (first < 0 || last < first) {
      return {};
    }
    for (int cpu = first; cpu <= last; ++cpu) {
      cpus.insert(cpu);
    }
  } while (take(text, ','));
  return text.empty() ? std::vector<int>(cpus.begin(), cpus.end()) : std::vector<int>{};
}

int available_cores() {
  const auto cores = static_cast<int>(one_cpu_per_core(allowed_cpus()).size());
  return std::min(cores, cgroup_cpus());
}

int usable_threads(int asked) {
  return std::min(asked, static_cast<int>(allowed_cpus().size()));
}

}  // namespace nibble::core
