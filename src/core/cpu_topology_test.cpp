#include "core/cpu_topology.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "core/error.h"
#include "core/placement.h"
#include "core/temporary_folder_for_tests.h"
#include "core/threads.h"

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

// What Linux shows of two sockets of two cores with two hardware threads each: CPU i and i + 4.
class SystemTree : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string first = std::to_string(cpu % 4);
      const std::string second = std::to_string(cpu % 4 + 4);
      write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            first + "," + second);
    }
    write("node/online", "0-1");
    write("node/node0/cpulist", "0-1,4-5");
    write("node/node1/cpulist", "2-3,6-7");
  }

  void write(const std::string& name, const std::string& text) { tree_.write(name, text + "\n"); }

  const TemporaryFolder tree_;
};

using Cpus = std::vector<int>;

TEST_F(SystemTree, OneCpuOfEachCore) {
  EXPECT_EQ(one_cpu_per_core(Cpus{0, 1, 2, 3, 4, 5, 6, 7}, tree_.path()), (Cpus{0, 1, 2, 3}));
  EXPECT_EQ(one_cpu_per_core(Cpus{1, 5, 6}, tree_.path()), (Cpus{1, 6}));
  EXPECT_EQ(one_cpu_per_core(Cpus{3, 9, 11}, tree_.path()),
            (Cpus{3, 9, 11}));  // nothing known of 9, 11
}

TEST_F(SystemTree, NodesAndTheirCpus) {
  EXPECT_EQ(memory_nodes(tree_.path()), (Cpus{0, 1}));
  EXPECT_EQ(cpus_of_node(1, tree_.path()), (Cpus{2, 3, 6, 7}));
  EXPECT_EQ(cpus_of_node(2, tree_.path()), Cpus{});
  EXPECT_EQ(memory_nodes(tree_ / "nothing"), Cpus{0});
}

TEST(CpuList, ReadsWhatLinuxWrites) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), Cpus{5});
  for (const char* wrong :
       {"", "x", "3-1", "1-", "1,", "-1", "1-2-3", "0-65536", "99999999999", "1 2"}) {
    EXPECT_EQ(parse_cpu_list(wrong), Cpus{}) << wrong;
  }
}

TEST(Placement, ThisMachineHasCores) {
  const Cpus allowed = allowed_cpus();
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), std::ssize(allowed));
  EXPECT_EQ(usable_threads(0), 0);
  EXPECT_EQ(usable_threads(1), 1);
  EXPECT_EQ(usable_threads(1 << 20), std::ssize(allowed));
  EXPECT_EQ(cores_for(5).size(), 5u);
}

TEST(Placement, WorkersRunWhereTheyAreBound) {
  const Cpus before = allowed_cpus();
  const Cpus cpus = cores_for(3);
  ThreadPool pool(3, cpus);
  std::vector<int> wrong(3, 0);
  pool.run_each([&](int worker) {
    const auto at = static_cast<std::size_t>(worker);
    wrong[at] = worker != 0 && allowed_cpus() != Cpus{cpus[at]} ? 1 : 0;
  });
  EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(allowed_cpus(), before);  // the caller stays free
  EXPECT_THROW(ThreadPool(2, cpus), Error);
  EXPECT_THROW(ThreadPool(3, Cpus{0, CPU_SETSIZE, CPU_SETSIZE}), Error);  // no such CPU
}

TEST(Placement, NumaWords) {
  EXPECT_EQ(parse_numa("none"), Numa::kNone);
  EXPECT_EQ(parse_numa("interleave"), Numa::kInterleave);
  EXPECT_EQ(parse_numa("isolate"), Numa::kIsolate);
  EXPECT_THROW(parse_numa("distribute"), Error);
  apply(Numa::kNone);
}

}  // namespace
}  // namespace nibble::core
