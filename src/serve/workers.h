#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/fair_queue.h"

namespace nibble::serve {

/// A piece of work that would hold the I/O thread up: parsing, templates, tokens, grammars.
struct Work {
  /// Short texts, which take milliseconds; grammars, whose cost cannot be told from their size;
  /// and what may take seconds.
  enum class Kind { kShort, kGrammar, kLong };

  std::string client;  // clients take turns
  Kind kind = Kind::kShort;
  std::function<bool()> in_vain;  // asked before it begins: nobody waits for it any more
  std::function<void()> run;      // must not throw
};

/// Threads for such work: some for each kind, so that none waits for another. All but those of
/// short work yield the processor to others.
class Workers {
 public:
  /// So many threads for each kind. Throws kOutOfMemory when the system refuses one.
  explicit Workers(int threads);
  /// Finishes what has begun; the rest is not done.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Any thread. False, and nothing is done, when kMaxOfClient pieces of this client wait.
  bool post(Work work);
  static constexpr std::size_t kMaxOfClient = 256;

  /// Pieces of work that were in vain, and not done.
  std::uint64_t skipped() const;

 private:
  struct Lane {
    FairQueue<Work> queue;
    std::condition_variable wake;
  };

  Lane& lane(Work::Kind kind) { return lanes_[static_cast<std::size_t>(kind)]; }
  void start_threads();
  void stop();
  void run(Lane& lane);

  mutable std::mutex mutex_;
  std::array<Lane, 3> lanes_;
  std::uint64_t skipped_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace nibble::serve
