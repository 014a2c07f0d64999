#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nibble::serve {

/// Threads for work that would hold the I/O thread up: parsing, templates, tokens, grammars.
class Workers {
 public:
  explicit Workers(int threads);
  /// Finishes what has begun; the rest is not done.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Any thread. `work` must not throw.
  void post(std::function<void()> work);
  /// Pieces of work that have not begun.
  std::size_t waiting() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace nibble::serve
