#include "core/threads.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "core/cpu_topology.h"
#include "core/error.h"
#include "core/placement.h"

namespace nibble::core {
namespace {

constexpr int kSpins = 2000;  // some 30 to 100 microseconds before a thread sleeps

constexpr std::uint32_t kOpen = std::uint32_t{1} << 31;

thread_local bool inside_loop = false;

// Chunks of a loop that lie side by side, which one worker takes before the others help: a worker
// that reads memory from one end to the other reads it faster than one that jumps.
struct alignas(64) Run {
  std::atomic<std::int64_t> next;
};
constexpr int kMostRuns = 64;  // more workers share them

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` differs from `old`: spins first, then sleeps.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) {
      return;
    }
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads, std::span<const int> cpus)
    : size_(threads > 0 ? threads : available_cores()),
      // With more threads than CPUs a spinning worker only takes time from one that works.
      spins_(size_ <= static_cast<int>(allowed_cpus().size()) ? kSpins : 0) {
  require(cpus.empty() || std::ssize(cpus) == size_, ErrorKind::kFailed, "{} CPUs for {} threads",
          cpus.size(), size_);
  try {
    for (int worker = 1; worker < size_; ++worker) {
      threads_.emplace_back([this, worker] { work(worker); });
    }
    if (!cpus.empty()) {
      bind_workers(cpus);
    }
  } catch (const std::system_error& error) {
    stop();  // nobody destroys a pool whose constructor threw
    fail(ErrorKind::kOutOfMemory, "cannot start {} threads: {}; use a smaller --threads", size_,
         error.code().message());
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadPool::bind_workers(std::span<const int> cpus) {
  run_each([cpus](int worker) {
    if (worker != 0) {
      bind_to(cpus[static_cast<std::size_t>(worker)]);
    }
  });
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadPool::run_one(int worker) {
  inside_loop = true;
  try {
    (*body_)(worker);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) {
      error_ = std::current_exception();
    }
  }
  inside_loop = false;
}

// A worker inside keeps the loop from ending, so that what it reads of the loop stays valid.
bool ThreadPool::join() {
  std::uint32_t door = door_.load(std::memory_order_relaxed);
  while ((door & kOpen) != 0) {
    if (door_.compare_exchange_weak(door, door + 1, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::leave() {
  if (door_.fetch_sub(1, std::memory_order_release) == 1) {  // closed, and the last one inside
    door_.notify_one();
  }
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    wait_for_change(generation_, seen, spins_);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) {
      return;
    }
    if (!join()) {
      continue;  // that loop has ended
    }
    seen = generation_.load(std::memory_order_relaxed);  // it may be a later loop
    joined_.fetch_add(1, std::memory_order_relaxed);
    joined_.notify_one();
    run_one(worker);
    leave();
  }
}

void ThreadPool::open(FunctionRef<void(int)> body) {
  body_ = body;
  joined_.store(0, std::memory_order_relaxed);
  door_.store(kOpen, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void ThreadPool::close() {
  door_.fetch_and(~kOpen, std::memory_order_relaxed);
  for (std::uint32_t inside = door_.load(std::memory_order_acquire); inside != 0;
       inside = door_.load(std::memory_order_acquire)) {
    wait_for_change(door_, inside, spins_);
  }
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::run_each(FunctionRef<void(int)> body) {
  if (inside_loop) {
    for (int worker = 0; worker < size_; ++worker) {
      body(worker);
    }
    return;
  }
  open(body);
  run_one(0);
  for (int joined = joined_.load(std::memory_order_relaxed); joined != size_ - 1;
       joined = joined_.load(std::memory_order_relaxed)) {
    wait_for_change(joined_, joined, spins_);
  }
  close();
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              FunctionRef<void(std::int64_t, std::int64_t)> body) {
  grain = std::max<std::int64_t>(1, grain);
  if (size_ == 1 || inside_loop || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) {
      body(begin, std::min(count, begin + grain));
    }
    return;
  }
  const std::int64_t chunks = (count + grain - 1) / grain;
  const std::int64_t runs = std::min<std::int64_t>({chunks, size_, kMostRuns});
  std::array<Run, kMostRuns> run_of;
  for (std::int64_t run = 0; run < runs; ++run) {
    run_of[static_cast<std::size_t>(run)].next.store(chunks * run / runs,
                                                     std::memory_order_relaxed);
  }
  const auto take_chunks = [&](int worker) {
    for (std::int64_t i = 0; i < runs; ++i) {  // its own run first
      const std::int64_t run = (worker + i) % runs;
      std::atomic<std::int64_t>& next = run_of[static_cast<std::size_t>(run)].next;
      const std::int64_t end = chunks * (run + 1) / runs;
      while (next.load(std::memory_order_relaxed) < end) {
        const std::int64_t chunk = next.fetch_add(1, std::memory_order_relaxed);
        if (chunk < end) {
          body(chunk * grain, std::min(count, (chunk + 1) * grain));
        }
      }
    }
  };
  open(take_chunks);
  run_one(0);
  close();
}

}  // namespace nibble::core
