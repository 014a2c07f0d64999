#include "core/threads.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <latch>
#include <map>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

#include "core/error.h"

namespace nibble::core {
namespace {

TEST(ThreadPool, CoversEveryElementOnce) {
  constexpr int kMany = 70;  // more than there are runs of chunks
  for (const int threads : {1, 2, 5, kMany}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
      pool.parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          ++hits[static_cast<std::size_t>(i)];
        }
      });
      for (const auto& hit : hits) {
        EXPECT_EQ(hit.load(), 1);
      }
    }
  }
}

// The second worker begins in the middle: both read memory from one end of their half to the other.
TEST(ThreadPool, WorkersBeginWithRunsOfTheirOwn) {
  ThreadPool pool(2);
  std::latch both(2);
  std::mutex mutex;
  std::map<std::thread::id, std::vector<std::int64_t>> taken;
  pool.parallel_for(10, 1, [&](std::int64_t begin, std::int64_t) {
    const auto is_first = [&] {
      const std::lock_guard lock(mutex);
      std::vector<std::int64_t>& mine = taken[std::this_thread::get_id()];
      mine.push_back(begin);
      return mine.size() == 1;
    };
    if (is_first()) {
      both.arrive_and_wait();
    }
  });
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[std::this_thread::get_id()].front(), 0);
  taken.erase(std::this_thread::get_id());
  EXPECT_EQ(taken.begin()->second.front(), 5);
}

TEST(ThreadPool, RunsEachWorkerOnceManyTimes) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int i = 0; i < 2000; ++i) {
    pool.run_each([&](int worker) { calls += 1 << (8 * worker); });
    EXPECT_EQ(calls.exchange(0), 0x010101);
  }
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run_each([](int worker) {
    if (worker == 1) {
      throw Error(ErrorKind::kFailed, "worker 1");
    }
  }),
               Error);
  std::atomic<int> calls{0};
  pool.run_each([&](int) { ++calls; });
  EXPECT_EQ(calls.load(), 2);
}

TEST(ThreadPool, NestedLoopsRunOnTheirWorker) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  pool.run_each(
      [&](int) { pool.parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++calls; }); });
  EXPECT_EQ(calls.load(), 20);
}

/// Stops a thread amid whatever it does, as the system stops one that loses its processor.
class StoppedThread {
 public:
  explicit StoppedThread(pthread_t thread) : old_(std::signal(SIGUSR1, hold)) {
    pthread_kill(thread, SIGUSR1);
    stopped_.acquire();
  }
  ~StoppedThread() {
    go_on_.release();
    went_on_.acquire();
    std::signal(SIGUSR1, old_);
  }
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;

 private:
  static void hold(int) {
    stopped_.release();
    go_on_.try_acquire_for(
        std::chrono::seconds(10));  // a pool that waits for it ends late, and fails
    went_on_.release();
  }

  inline static std::binary_semaphore stopped_{0};
  inline static std::binary_semaphore go_on_{0};
  inline static std::binary_semaphore went_on_{0};
  void (*old_)(int);
};

TEST(ThreadPool, AWorkerThatDoesNotRunHoldsNobodyUp) {
  ThreadPool pool(2);
  pthread_t worker_thread{};
  pool.run_each([&](int worker) {
    if (worker == 1) {
      worker_thread = pthread_self();
    }
  });
  std::atomic<std::int64_t> sum{0};
  const auto add = [&](std::int64_t begin, std::int64_t) { sum += begin; };
  const auto start = std::chrono::steady_clock::now();
  {
    const StoppedThread stopped(worker_thread);
    for (int loop = 0; loop < 100; ++loop) {
      pool.parallel_for(10, 1, add);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(9));
  }
  EXPECT_EQ(sum.load(), 4500);
  pool.parallel_for(10, 1, add);
  EXPECT_EQ(sum.load(), 4545);
}

TEST(ThreadPool, ManyShortLoopsLoseNoChunk) {
  ThreadPool pool(4);
  for (int loop = 0; loop < 20000; ++loop) {
    std::atomic<int> calls{0};
    pool.parallel_for(5, 1, [&](std::int64_t, std::int64_t) { ++calls; });
    ASSERT_EQ(calls.load(), 5) << loop;
  }
}

TEST(ThreadPool, AChunkThatThrowsEndsTheLoopAndNotThePool) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 100; ++loop) {
    EXPECT_THROW(pool.parallel_for(20, 1,
                                   [](std::int64_t begin, std::int64_t) {
                                     if (begin == 7) {
                                       throw Error(ErrorKind::kFailed, "chunk 7");
                                     }
                                   }),
                 Error);
  }
}

}  // namespace
}  // namespace nibble::core
