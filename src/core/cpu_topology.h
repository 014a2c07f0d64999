#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace nibble::core {

/// Where Linux tells about processors and memory nodes.
inline const std::filesystem::path kSystemTree = "/sys/devices/system";

/// CPUs that this thread may run on (its affinity mask), in ascending order; never empty.
std::vector<int> allowed_cpus();

/// The first of `cpus` on each physical core: two hardware threads of a core share its arithmetic
/// and its way to memory. A CPU of which `system` says nothing counts as a core.
std::vector<int> one_cpu_per_core(std::span<const int> cpus,
                                  const std::filesystem::path& system = kSystemTree);

/// Memory nodes (NUMA), in ascending order; {0} where `system` says nothing.
std::vector<int> memory_nodes(const std::filesystem::path& system = kSystemTree);

/// CPUs of a memory node; empty where `system` says nothing.
std::vector<int> cpus_of_node(int node, const std::filesystem::path& system = kSystemTree);

/// "0-3,8" as {0, 1, 2, 3, 8}; empty for any other text and for numbers of 65,536 and more.
std::vector<int> parse_cpu_list(std::string_view text);

/// Physical cores that this process may use (affinity mask and cgroup quota), at least 1.
int available_cores();

/// As many threads as are asked for, but no more than there are CPUs to run them: more would only
/// take time from one another. 0 (one for each core) stays 0.
int usable_threads(int asked);

}  // namespace nibble::core
