#include "serve/workers.h"

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/error.h"

namespace nibble::serve {
namespace {

TEST(FairQueue, ClientsTakeTurns) {
  FairQueue<int> queue;
  for (int i = 0; i < 4; ++i) {
    queue.push("greedy", i);
  }
  queue.push("b", 10);
  queue.push("c", 20);
  std::vector<int> order;
  while (!queue.empty()) {
    const auto [client, item] = queue.pop();
    order.push_back(item);
    queue.finish(client);
  }
  EXPECT_EQ(order, (std::vector<int>{0, 10, 20, 1, 2, 3}));
}

// One that has something under way waits for those that have not, also when its turn would come.
TEST(FairQueue, WhoHasLessUnderWayGoesFirst) {
  FairQueue<int> queue;
  for (int i = 0; i < 4; ++i) {
    queue.push("greedy", i);
  }
  EXPECT_EQ(queue.pop().second, 0);
  EXPECT_EQ(queue.pop().second, 1) << "nobody else waits";
  queue.push("b", 10);
  queue.push("c", 20);
  EXPECT_EQ(queue.pop().second, 10);
  EXPECT_EQ(queue.pop().second, 20);
  queue.finish("b");
  queue.push("b", 11);
  EXPECT_EQ(queue.pop().second, 11);
  EXPECT_EQ(queue.pop().second, 2);
  EXPECT_EQ(queue.size_of("greedy"), 1u);
}

// Workers with a thread for each kind, and a piece of work that holds the one for long work.
class WorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    post(Work::Kind::kLong, "first", [this] {
      begun_.set_value();
      held_.get_future().wait();
    });
    begun_.get_future().wait();
  }
  void TearDown() override {
    if (!released_) {
      held_.set_value();
    }
  }

  bool post(Work::Kind kind, const std::string& client, std::function<void()> run,
            std::function<bool()> in_vain = nullptr) {
    return workers_.post({client, kind, std::move(in_vain), std::move(run)});
  }
  // Lets the held work go, and waits until all that was posted for `client` is done.
  void release(const std::string& client) {
    released_ = true;
    held_.set_value();
    std::promise<void> done;
    while (!post(Work::Kind::kLong, client, [&] { done.set_value(); })) {
      std::this_thread::yield();
    }
    done.get_future().wait();
  }

  std::promise<void> begun_;
  std::promise<void> held_;
  bool released_ = false;
  Workers workers_{1};
};

TEST_F(WorkersTest, WorkOfClientsThatHaveGoneIsNotDone) {
  std::atomic<bool> gone{false};
  std::atomic<int> done{0};
  for (int i = 0; i < 8; ++i) {
    post(
        Work::Kind::kLong, "a", [&] { ++done; }, [&] { return gone.load(); });
  }
  post(
      Work::Kind::kLong, "a", [&] { ++done; }, [] { return false; });
  gone = true;
  release("a");
  EXPECT_EQ(done, 1);
  EXPECT_EQ(workers_.skipped(), 8u);
}

TEST_F(WorkersTest, OneKindDoesNotHoldAnotherUp) {
  for (const Work::Kind kind : {Work::Kind::kShort, Work::Kind::kGrammar}) {
    std::promise<void> done;
    post(kind, "first", [&] { done.set_value(); });
    done.get_future().wait();
  }
}

TEST_F(WorkersTest, OneClientCannotFillTheQueue) {
  for (std::size_t i = 0; i < Workers::kMaxOfClient; ++i) {
    EXPECT_TRUE(post(Work::Kind::kLong, "a", [] {}));
  }
  EXPECT_FALSE(post(Work::Kind::kLong, "a", [] {}));
  EXPECT_TRUE(post(Work::Kind::kLong, "b", [] {}));
  release("a");
}

// Room for some threads with their stacks, but not for all.
[[noreturn]] void start_many_in_little_memory() {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (256u << 20);
  const rlimit limit = {most, most};
  setrlimit(RLIMIT_AS, &limit);
  try {
    const Workers workers(256);
  } catch (const core::Error& error) {
    std::_Exit(static_cast<int>(error.kind()));
  }
  std::_Exit(0);
}

TEST(Workers, ThreadsThatCannotStartAreLackOfMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes all addresses";
#endif
  EXPECT_EXIT(start_many_in_little_memory(),
              ::testing::ExitedWithCode(static_cast<int>(core::ErrorKind::kOutOfMemory)), "");
}

}  // namespace
}  // namespace nibble::serve
