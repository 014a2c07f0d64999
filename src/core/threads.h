#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace nibble::core {

/// A reference to a callable, valid while the callable lives. Never allocates.
template <typename Signature>
class FunctionRef;

template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& function)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args>(args)...);
        }) {}
  Result operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

/// A fixed team of threads for data-parallel loops. The caller is worker 0. Between loops the other
/// workers spin for some microseconds and then sleep. One loop at a time: a loop started from
/// inside a worker runs on that worker alone.
///
/// Other programs may take a processor away at any time. A worker that is not running then misses
/// a loop, and nobody waits for it; one that loses its processor amid a chunk delays that chunk.
///
/// Results must not depend on how the work is split: every element is computed by one worker, in
/// one order of additions, whatever the number of threads.
class ThreadPool {
 public:
  /// `threads` workers in all, the caller included; 0 means available_cores(). With `cpus`, one for
  /// each worker, workers run there only; the caller, whose thread is not ours, stays free. Throws
  /// kOutOfMemory when the system refuses.
  explicit ThreadPool(int threads = 0, std::span<const int> cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// Runs body(worker) once for each worker in [0, size()) and waits for all: to set threads up and
  /// to measure them, not to share work. Rethrows the first exception.
  void run_each(FunctionRef<void(int)> body);

  /// Calls body(begin, end) over chunks of at most `grain` that cover [0, count). Each worker has a
  /// run of chunks side by side, which it takes in turn; then it takes what is left of the others'
  /// runs. Rethrows the first exception.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    FunctionRef<void(std::int64_t, std::int64_t)> body);

 private:
  void bind_workers(std::span<const int> cpus);
  void stop();
  void work(int worker);
  bool join();
  void leave();
  void run_one(int worker);
  void open(FunctionRef<void(int)> body);
  void close();

  int size_ = 1;
  int spins_ = 0;  // looks at a counter before a thread sleeps on it
  std::vector<std::thread> threads_;
  std::atomic<std::uint32_t> generation_{0};  // counts loops; a change wakes the workers
  std::atomic<std::uint32_t> door_{0};        // kOpen while a loop can be joined + workers inside
  std::atomic<int> joined_{0};                // workers that joined the current loop
  std::atomic<bool> stop_{false};
  std::optional<FunctionRef<void(int)>> body_;  // of the current loop
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace nibble::core
