#include "core/threads.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/cpu_topology.h"
#include "core/error.h"
#include "core/placement.h"

namespace nibble::core {
namespace {

constexpr int kSpins = 4000;  // some 10 to 50 microseconds before a thread sleeps

thread_local bool inside_loop = false;

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
    fail(ErrorKind::kFailed, "cannot start {} threads: {}; use a smaller --threads", size_,
         error.code().message());
  } catch (...) {
    stop();
    throw;
  }
}

void ThreadPool::bind_workers(std::span<const int> cpus) {
  run([cpus](int worker) {
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

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  while (true) {
    wait_for_change(generation_, seen, spins_);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) {
      return;
    }
    run_one(worker);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      pending_.notify_one();
    }
  }
}

void ThreadPool::run(FunctionRef<void(int)> body) {
  if (inside_loop) {
    for (int worker = 0; worker < size_; ++worker) {
      body(worker);
    }
    return;
  }
  body_ = &body;
  if (size_ > 1) {
    pending_.store(size_ - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  run_one(0);
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    wait_for_change(pending_, left, spins_);
  }
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
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
  std::atomic<std::int64_t> next{0};
  run([&](int) {
    for (std::int64_t begin = next.fetch_add(grain); begin < count; begin = next.fetch_add(grain)) {
      body(begin, std::min(count, begin + grain));
    }
  });
}

}  // namespace nibble::core
