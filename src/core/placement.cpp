#include "core/placement.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <iterator>
#include <span>

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cpu_topology.h"
#include "core/error.h"

namespace nibble::core {
namespace {

void set_affinity(std::span<const int> cpus) {
  const int last = *std::max_element(cpus.begin(), cpus.end());
  std::vector<cpu_set_t> mask(static_cast<std::size_t>(last / CPU_SETSIZE + 1));
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus) {
    CPU_SET_S(static_cast<std::size_t>(cpu), bytes, mask.data());
  }
  const int result = sched_setaffinity(0, bytes, mask.data());
  require(result == 0, ErrorKind::kFailed,
          "cannot bind a thread to CPU {}: {}; run without --pin and --numa", cpus.front(),
          std::strerror(errno));
}

void set_memory_policy(int mode, std::span<const int> nodes) {
  constexpr std::size_t kWordBits = CHAR_BIT * sizeof(unsigned long);
  std::vector<unsigned long> mask(static_cast<std::size_t>(nodes.back()) / kWordBits + 1);
  for (const int node : nodes) {
    const auto bit = static_cast<std::size_t>(node);
    mask[bit / kWordBits] |= 1UL << (bit % kWordBits);
  }
  // The kernel reads one bit less than it is told.
  const long result = syscall(SYS_set_mempolicy, mode, mask.data(), mask.size() * kWordBits + 1);
  require(result == 0, ErrorKind::kFailed, "cannot choose memory nodes: {}; use --numa none",
          std::strerror(errno));
}

int node_of_this_thread() {
  unsigned cpu = 0;
  unsigned node = 0;
  const long result = syscall(SYS_getcpu, &cpu, &node, nullptr);
  require(result == 0, ErrorKind::kFailed,
          "cannot tell the memory node of this thread: {}; use --numa none", std::strerror(errno));
  return static_cast<int>(node);
}

}  // namespace

Numa parse_numa(std::string_view text) {
  if (text == "none") {
    return Numa::kNone;
  }
  if (text == "interleave") {
    return Numa::kInterleave;
  }
  require(text == "isolate", ErrorKind::kUsage,
          "--numa '{}' is not known; use none, interleave or isolate", printable(text));
  return Numa::kIsolate;
}

void apply(Numa numa) {
  if (numa == Numa::kInterleave) {
    set_memory_policy(MPOL_INTERLEAVE, memory_nodes());
  } else if (numa == Numa::kIsolate) {
    const int node = node_of_this_thread();
    const std::vector<int> allowed = allowed_cpus();
    const std::vector<int> of_node = cpus_of_node(node);
    std::vector<int> cpus;
    std::set_intersection(allowed.begin(), allowed.end(), of_node.begin(), of_node.end(),
                          std::back_inserter(cpus));
    if (!cpus.empty()) {
      set_affinity(cpus);
    }
    set_memory_policy(MPOL_PREFERRED, std::span(&node, 1));
  }
}

std::vector<int> cores_for(int threads) {
  const std::vector<int> cores = one_cpu_per_core(allowed_cpus());
  std::vector<int> chosen;
  for (int i = 0; i < threads; ++i) {
    chosen.push_back(cores[static_cast<std::size_t>(i) % cores.size()]);
  }
  return chosen;
}

void bind_to(int cpu) {
  set_affinity(std::span(&cpu, 1));
}

}  // namespace nibble::core
