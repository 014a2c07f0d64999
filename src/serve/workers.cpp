#include "serve/workers.h"

#include <utility>

#include <sys/resource.h>

#include "core/start_thread.h"

namespace nibble::serve {
namespace {

constexpr int kNice = 10;

// Of the calling thread, on Linux.
void yield_to_others() {
  ::setpriority(PRIO_PROCESS, 0, kNice);
}

}  // namespace

Workers::Workers(int threads) {
  threads_.reserve(lanes_.size() *
                   static_cast<std::size_t>(threads));  // else it may fail with a thread in hand
  try {
    for (int i = 0; i < threads; ++i) {
      start_threads();
    }
  } catch (...) {
    stop();  // nobody destroys an object whose constructor threw
    throw;
  }
}

// One for each kind of work.
void Workers::start_threads() {
  threads_.push_back(core::start_thread([this] { run(lane(Work::Kind::kShort)); }));
  for (const Work::Kind kind : {Work::Kind::kGrammar, Work::Kind::kLong}) {
    threads_.push_back(core::start_thread([this, kind] {
      yield_to_others();
      run(lane(kind));
    }));
  }
}

Workers::~Workers() {
  stop();
}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (Lane& lane : lanes_) {
    lane.wake.notify_all();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

bool Workers::post(Work work) {
  Lane& to = lane(work.kind);
  {
    const std::lock_guard lock(mutex_);
    if (to.queue.size_of(work.client) >= kMaxOfClient) {
      return false;
    }
    const std::string client = work.client;
    to.queue.push(client, std::move(work));
  }
  to.wake.notify_one();
  return true;
}

std::uint64_t Workers::skipped() const {
  const std::lock_guard lock(mutex_);
  return skipped_;
}

void Workers::run(Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    lane.wake.wait(lock, [&] { return stop_ || !lane.queue.empty(); });
    if (stop_) {
      return;
    }
    auto [client, work] = lane.queue.pop();
    lock.unlock();
    const bool in_vain = work.in_vain && work.in_vain();
    if (!in_vain) {
      work.run();
    }
    work = {};  // what it holds may be large
    lock.lock();
    lane.queue.finish(client);
    skipped_ += in_vain ? 1 : 0;
  }
}

}  // namespace nibble::serve
