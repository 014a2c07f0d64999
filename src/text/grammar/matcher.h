#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"

namespace nibble::text {

/// One way to go on with a text: the element that reads the next byte, and what follows its rule.
struct GrammarThread {
  std::int32_t element;
  std::int32_t frame;  // -1: nothing
  friend bool operator==(const GrammarThread&, const GrammarThread&) = default;
  friend bool operator<(const GrammarThread& a, const GrammarThread& b) {
    return a.element != b.element ? a.element < b.element : a.frame < b.frame;
  }
};

struct GrammarThreadHash {
  std::size_t operator()(const GrammarThread& thread) const {
    const auto key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(thread.element)) << 32 |
                     static_cast<std::uint32_t>(thread.frame);
    return static_cast<std::size_t>((key ^ (key >> 29)) * 0x9e3779b97f4a7c15ull >> 7);
  }
};

/// A set of threads that is emptied at no cost.
class GrammarThreadSet {
 public:
  /// False when it is there already.
  bool insert(const GrammarThread& thread);
  std::size_t size() const { return count_; }
  void clear() {
    ++round_;
    count_ = 0;
  }

 private:
  struct Slot {
    GrammarThread thread = {};
    std::uint64_t round = 0;  // in which it was filled
  };
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(64);
  std::uint64_t round_ = 1;
  std::size_t count_ = 0;
};

/// Reads text byte by byte along a grammar: a pushdown automaton whose sets of stacks are numbered
/// as they are met, so that what was met before costs one look-up. Not for several threads at once.
///
/// A grammar can ask for any amount of work (a repetition in a repetition can be read in many
/// ways), so there is a budget: each thread that is looked at is a step. What needs more throws
/// kUsage, and so does a state of more than kMaxThreads, or more than kMaxStates or kMaxKept
/// threads in all.
class GrammarMatcher {
 public:
  using State = std::int32_t;
  static constexpr State kDead = -1;  // no text of the grammar goes on like this
  static constexpr std::size_t kMaxThreads = 20'000;
  static constexpr std::size_t kMaxStates = 50'000;
  static constexpr std::size_t kMaxKept = 4'000'000;
  static constexpr std::int64_t kBaseSteps = 3'000'000;
  static constexpr std::int64_t kStepsPerByte = 20'000;

  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);

  State start() const { return start_; }
  /// The state behind one more byte.
  State next(State state, std::uint8_t byte);
  /// Adds the steps that a text of so many bytes more may take.
  void allow_bytes(std::size_t bytes) {
    steps_left_ += kStepsPerByte * static_cast<std::int64_t>(bytes);
  }
  /// Whether the text may end here.
  bool complete(State state) const {
    return state != kDead && states_[static_cast<std::size_t>(state)].complete;
  }
  std::size_t states() const { return states_.size(); }
  std::int64_t steps_left() const { return steps_left_; }

 private:
  struct MatchState {
    std::vector<GrammarThread> threads;  // sorted
    bool complete = false;
    std::vector<State> next;  // by class of byte; empty where nobody asked
  };
  static constexpr State kUnknown = -2;

  State close(std::vector<GrammarThread> open);
  State number_of(std::vector<GrammarThread> threads, bool complete);
  std::int32_t frame_of(std::int32_t element, std::int32_t parent);
  void pay(std::size_t steps);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<GrammarThread> frames_;  // element to go on with, and the frame behind it
  std::unordered_map<GrammarThread, std::int32_t, GrammarThreadHash> frame_numbers_;
  std::vector<MatchState> states_;
  std::unordered_multimap<std::size_t, State> numbers_;  // of states, by a hash of their threads
  GrammarThreadSet seen_;                                // while a state is closed
  State start_ = kDead;
  std::size_t kept_ = 0;
  std::int64_t steps_left_ = kBaseSteps;
};

}  // namespace nibble::text
