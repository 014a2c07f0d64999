#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace nibble::text {

/// Reads text byte by byte along a grammar: a pushdown automaton whose sets of stacks are numbered
/// as they are met, so that what was met before costs one look-up. Not for several threads at once.
class GrammarMatcher {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;  // no text of the grammar goes on like this
  static constexpr std::size_t kMaxStates = 50'000;
  static constexpr std::size_t kMaxKept = 10'000'000;  // ways to go on, in all states

  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  /// The state behind one more byte. Throws kFailed when more than kMaxStates are met, one holds
  /// more than kMaxThreads ways to go on, or all together more than kMaxKept.
  State next(State state, std::uint8_t byte);
  /// Whether the text may end here.
  bool complete(State state) const {
    return state != kDead && states_[static_cast<std::size_t>(state)].complete;
  }
  std::size_t states() const { return states_.size(); }

 private:
  static constexpr std::size_t kMaxThreads = 20'000;

  // One way to go on: the element that reads the next byte, and what follows its rule.
  struct Thread {
    std::int32_t element;
    std::int32_t frame;  // -1: nothing
    friend bool operator==(const Thread&, const Thread&) = default;
    friend bool operator<(const Thread& a, const Thread& b) {
      return a.element != b.element ? a.element < b.element : a.frame < b.frame;
    }
  };
  struct ThreadHash {
    std::size_t operator()(const Thread& thread) const {
      const auto key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(thread.element))
                           << 32 |
                       static_cast<std::uint32_t>(thread.frame);
      return static_cast<std::size_t>((key ^ (key >> 29)) * 0x9e3779b97f4a7c15ull >> 7);
    }
  };
  struct ThreadsHash {
    std::size_t operator()(const std::vector<Thread>& threads) const {
      std::size_t hash = threads.size();
      for (const Thread& thread : threads) {
        hash = hash * 1099511628211ull ^ ThreadHash()(thread);
      }
      return hash;
    }
  };
  struct MatchState {
    std::vector<Thread> threads;  // sorted
    bool complete = false;
    std::unique_ptr<std::array<State, 256>> next;  // kUnknown where nobody asked
  };
  static constexpr State kUnknown = -2;

  State close(std::vector<Thread> open);
  std::int32_t frame_of(std::int32_t element, std::int32_t parent);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Thread> frames_;  // element to go on with, and the frame behind it
  std::unordered_map<Thread, std::int32_t, ThreadHash> frame_numbers_;
  std::vector<MatchState> states_;
  // States by their threads, with and without an end.
  std::unordered_map<std::vector<Thread>, State, ThreadsHash> numbers_[2];
  State start_ = kDead;
  std::size_t kept_ = 0;
};

}  // namespace nibble::text
