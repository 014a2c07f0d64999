#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks/join.h"

namespace nibble::ranks {

/// A test that runs in two processes, as two ranks: the second one is this program once more, with
/// this test alone.
class TwoProcesses : public testing::Test {
 protected:
  static constexpr const char* kJob = "NIBBLE_TEST_JOB";  // set in the second process

  bool leads() const { return std::getenv(kJob) == nullptr; }

  /// Starts the other process, in the first one, and joins it. To be called once.
  std::shared_ptr<Communicator> join_both() {
    RankPlace place;
    place.size = place.local_size = 2;
    place.rank = place.local_rank = leads() ? 0 : 1;
    place.job = leads() ? fmt::format("test-{}", getpid()) : std::getenv(kJob);
    if (leads()) {
      start(place.job);
    }
    return join(place);
  }

  /// Status of the second process, when it has ended: 0, where its part of the test passed.
  int end_of_other() {
    int status = 0;
    waitpid(other_, &status, 0);
    other_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  void TearDown() override {
    if (other_ > 0) {
      EXPECT_EQ(end_of_other(), 0) << "the second process failed";
    }
  }

 private:
  void start(const std::string& job) {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::string filter = fmt::format("--gtest_filter={}.{}", test->test_suite_name(), test->name());
    setenv(kJob, job.c_str(), 1);
    char* arguments[] = {program.data(), filter.data(), nullptr};
    const int failed = posix_spawn(&other_, program.c_str(), nullptr, nullptr, arguments, environ);
    unsetenv(kJob);
    ASSERT_EQ(failed, 0);
  }

  pid_t other_ = 0;
};

}  // namespace nibble::ranks
