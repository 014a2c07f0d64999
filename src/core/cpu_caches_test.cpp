#include "core/cpu_caches.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/temporary_folder_for_tests.h"

namespace nibble::core {
namespace {

namespace fs = std::filesystem;

// What Linux shows of four CPUs: caches of their own, and a last one for each two.
class CacheTree : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int cpu = 0; cpu < 4; ++cpu) {
      const std::string own = std::to_string(cpu);
      write(cpu, 0, "1", "32K", "Data", own);
      write(cpu, 1, "1", "64K", "Instruction", own);
      write(cpu, 2, "2", "512K", "Unified", own);
      write(cpu, 3, "3", cpu < 2 ? "32768K" : "16384K", "Unified", cpu < 2 ? "0-1" : "2-3");
    }
  }

  void write(int cpu, int index, const char* level, const char* size, const char* type,
             const std::string& cpus) {
    const std::string cache =
        "cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(index) + "/";
    tree_.write(cache + "level", std::string(level) + "\n");
    tree_.write(cache + "size", std::string(size) + "\n");
    tree_.write(cache + "type", std::string(type) + "\n");
    tree_.write(cache + "shared_cpu_list", cpus + "\n");
  }

  std::int64_t mebibytes(const std::vector<int>& cpus, int threads) const {
    return cache_bytes(cpus, threads, tree_.path()) >> 20;
  }

  const TemporaryFolder tree_;
};

TEST_F(CacheTree, CountsTheLastCachesOnce) {
  EXPECT_EQ(mebibytes({0, 1}, 2), 32);
  EXPECT_EQ(mebibytes({0, 1, 2, 3}, 4), 48);
  EXPECT_EQ(mebibytes({2, 3}, 2), 16);
}

TEST_F(CacheTree, NoMoreCachesThanThreads) {
  EXPECT_EQ(mebibytes({0, 1, 2, 3}, 1), 32) << "the largest";
}

TEST_F(CacheTree, IsZeroWhereNothingIsSaid) {
  EXPECT_EQ(cache_bytes(std::vector<int>{0}, 1, tree_ / "nothing"), 0);
  write(0, 3, "3", "huge", "Unified", "0-1");
  EXPECT_EQ(cache_bytes(std::vector<int>{0}, 1, tree_.path()), 512 << 10)
      << "the level before counts";
}

TEST(CacheBytes, ThisMachineHasSome) {
  if (!fs::exists(kSystemTree / "cpu/cpu0/cache/index0/size")) {
    GTEST_SKIP() << "the system shows no caches";
  }
  EXPECT_GT(cache_bytes(allowed_cpus(), 1), 0);
}

}  // namespace
}  // namespace nibble::core
