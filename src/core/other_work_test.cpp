#include "core/other_work.h"

#include <csignal>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cpu_topology.h"
#include "core/temporary_folder_for_tests.h"

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

class ProcTree : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { tree_.write(name, text + "\n"); }

  const TemporaryFolder tree_;
};

// Ticks of 10 ms; user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
TEST_F(ProcTree, BusyIsAllButIdleOfTheNamedCpus) {
  ASSERT_EQ(sysconf(_SC_CLK_TCK), 100);
  write("stat",
        "cpu  1000 0 0 9 9 0 0 0 0 0\ncpu0 100 20 30 5000 600 7 8 35 50 0\n"
        "cpu1 50 0 50 9 9 0 0 0 0 0\ncpu2 700 0 0 9 9 0 0 0 0 0\nintr 5 cpu0 cpu1\n");
  EXPECT_DOUBLE_EQ(read_cpu_counters({0, 1}, tree_.path()).busy.value_or(-1), 2.0 + 1.0);
  EXPECT_DOUBLE_EQ(read_cpu_counters({2}, tree_.path()).busy.value_or(-1), 7.0);
  EXPECT_FALSE(read_cpu_counters({0, 3}, tree_.path()).busy) << "CPU 3 is not told of";
}

TEST_F(ProcTree, ThreadsAreAddedUp) {
  write("self/task/10/schedstat", "3000000000 1000000000 77");
  write("self/task/11/schedstat", "500000000 250000000 3");
  write("self/task/12/comm", "ended");
  const CpuCounters counters = read_cpu_counters({0}, tree_.path());
  EXPECT_DOUBLE_EQ(counters.ran.value_or(-1), 3.5);
  EXPECT_DOUBLE_EQ(counters.waited.value_or(-1), 1.25);
}

TEST_F(ProcTree, NothingIsToldWithoutFiles) {
  const CpuCounters counters = read_cpu_counters({0}, tree_.path());
  EXPECT_FALSE(counters.busy || counters.ran || counters.waited);
  const OtherWork work = other_work_between(counters, counters);
  EXPECT_FALSE(work.busy_cpus || work.waited_share);
  EXPECT_FALSE(disturbs(work));
}

TEST(OtherWork, IsWhatThisProcessDidNotTake) {
  const CpuCounters before{100, 5, 1000, 4.0, 0.5};
  const CpuCounters after{102, 6.5, 1003, 5.2, 0.8};  // 2 s: 3 s of CPU time, 1.5 of it ours
  const OtherWork work = other_work_between(before, after);
  EXPECT_DOUBLE_EQ(work.busy_cpus.value_or(-1), 0.75);
  EXPECT_DOUBLE_EQ(work.waited_share.value_or(-1), 0.2);
  EXPECT_TRUE(disturbs(work));
  CpuCounters alone = after;
  alone.busy = 1001.5;
  alone.waited = 0.5;
  EXPECT_FALSE(disturbs(other_work_between(before, alone)));
  alone.clock = 100.1;
  EXPECT_FALSE(other_work_between(before, alone).busy_cpus) << "too short for ticks";
}

TEST(OtherWork, TheLargerOfTwo) {
  const OtherWork work = larger({0.5, std::nullopt}, {0.25, 0.1});
  EXPECT_EQ(work.busy_cpus, 0.5);
  EXPECT_EQ(work.waited_share, 0.1);
}

// A process that does nothing but compute, beside one that watches.
TEST(OtherWork, ABusyProcessIsSeen) {
  const std::vector<int> cpus = allowed_cpus();
  if (!read_cpu_counters(cpus).busy) {
    GTEST_SKIP() << "/proc/stat does not tell of the CPUs";
  }
  const OtherWorkMeter meter;
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    while (true) {
      asm volatile("");  // a loop without effects may be left out
    }
  }
  usleep(600'000);
  const OtherWork work = meter.read();
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_GE(work.busy_cpus.value_or(0), kBusyCpus);
  EXPECT_TRUE(disturbs(work));
}

}  // namespace
}  // namespace nibble::core
