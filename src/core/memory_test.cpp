#include "core/memory.h"

#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "core/temporary_folder_for_tests.h"

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = 1 << 20;

// The files of a system with 1000 MiB of memory, of which 600 are available, and 50 MiB of swap.
class Memory : public ::testing::Test {
 protected:
  Memory() {
    put("proc/meminfo",
        "MemTotal:       1024000 kB\nMemFree:          1024 kB\nMemAvailable:    614400 kB\n"
        "HugePages_Total:       0\nSwapTotal:         51200 kB\n");
  }

  void put(const std::string& path, const std::string& text) { folder_.write(path, text); }
  std::string bytes(std::int64_t mib) const { return std::to_string(mib * kMiB) + "\n"; }

  const TemporaryFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(Memory, IsThatOfTheSystemWithoutGroups) {
  EXPECT_EQ(machine_memory_bytes(root_), 1050 * kMiB);
  EXPECT_EQ(available_memory_bytes(root_), 600 * kMiB);
}

TEST_F(Memory, IsWhatTheTightestGroupAllows) {
  put("proc/self/cgroup", "0::/service/worker\n");
  put("sys/fs/cgroup/memory.max", "max\n");
  put("sys/fs/cgroup/service/memory.max", bytes(300));
  put("sys/fs/cgroup/service/memory.current", bytes(250));
  put("sys/fs/cgroup/service/memory.stat",
      "anon 5\nactive_file " + bytes(20) + "inactive_file " + bytes(130));
  put("sys/fs/cgroup/service/worker/memory.max", bytes(400));
  put("sys/fs/cgroup/service/worker/memory.current", bytes(10));
  EXPECT_EQ(machine_memory_bytes(root_), 350 * kMiB);
  EXPECT_EQ(available_memory_bytes(root_), 200 * kMiB) << "cached files are free";
}

TEST_F(Memory, KnowsTheFirstVersionOfGroups) {
  put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/elsewhere\n0::/\n");
  // Where the group itself is mounted as the root.
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", bytes(100));
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", bytes(40));
  EXPECT_EQ(machine_memory_bytes(root_), 150 * kMiB);
  EXPECT_EQ(available_memory_bytes(root_), 60 * kMiB);
}

TEST(MachineMemory, NoMachineHasAllAddresses) {
  EXPECT_TRUE(machine_has(1));
  EXPECT_FALSE(machine_has(std::numeric_limits<std::int64_t>::max() / 2));
}

}  // namespace
}  // namespace nibble::core
