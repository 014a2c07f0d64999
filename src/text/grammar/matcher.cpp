#include "text/grammar/matcher.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"

namespace nibble::text {

using core::ErrorKind;
using Kind = GrammarElement::Kind;

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  std::vector<Thread> open;
  for (const std::int32_t element : grammar_->alternatives(grammar_->root())) {
    open.push_back({element, -1});
  }
  start_ = close(std::move(open));
}

std::int32_t GrammarMatcher::frame_of(std::int32_t element, std::int32_t parent) {
  const auto [at, is_new] =
      frame_numbers_.try_emplace({element, parent}, static_cast<std::int32_t>(frames_.size()));
  if (is_new) {
    frames_.push_back({element, parent});
  }
  return at->second;
}

// Follows rules and ends until every thread stands before a byte.
GrammarMatcher::State GrammarMatcher::close(std::vector<Thread> open) {
  std::unordered_set<Thread, ThreadHash> seen(open.begin(), open.end());
  std::vector<Thread> ready;
  bool complete = false;
  const auto add = [&](Thread thread) {
    if (seen.insert(thread).second) {
      open.push_back(thread);
      core::require(seen.size() <= kMaxThreads, ErrorKind::kFailed,
                    "the grammar has more than {} ways to go on at once", kMaxThreads);
    }
  };
  while (!open.empty()) {
    const Thread thread = open.back();
    open.pop_back();
    const GrammarElement& element = grammar_->element(thread.element);
    if (element.kind == Kind::kBytes) {
      ready.push_back(thread);
    } else if (element.kind == Kind::kEnd) {
      if (thread.frame < 0) {
        complete = true;
      } else {
        add(frames_[static_cast<std::size_t>(thread.frame)]);
      }
    } else {
      const std::int32_t behind = thread.element + 1;
      const bool last = grammar_->element(behind).kind == Kind::kEnd;  // nothing to come back to
      const std::int32_t frame = last ? thread.frame : frame_of(behind, thread.frame);
      for (const std::int32_t alternative : grammar_->alternatives(element.rule)) {
        add({alternative, frame});
      }
    }
  }
  if (ready.empty() && !complete) {
    return kDead;
  }
  std::sort(ready.begin(), ready.end());
  const auto number = static_cast<State>(states_.size());
  const auto [at, is_new] = numbers_[complete ? 1 : 0].try_emplace(ready, number);
  if (is_new) {
    kept_ += ready.size();
    core::require(states_.size() < kMaxStates && kept_ <= kMaxKept && frames_.size() <= kMaxKept,
                  ErrorKind::kFailed, "the grammar needs more than {} states for this text",
                  states_.size());
    states_.push_back({std::move(ready), complete, nullptr});
  }
  return at->second;
}

GrammarMatcher::State GrammarMatcher::next(State state, std::uint8_t byte) {
  if (state == kDead) {
    return kDead;
  }
  const auto index = static_cast<std::size_t>(state);
  if (!states_[index].next) {
    states_[index].next = std::make_unique<std::array<State, 256>>();
    states_[index].next->fill(kUnknown);
  }
  if ((*states_[index].next)[byte] != kUnknown) {
    return (*states_[index].next)[byte];
  }
  std::vector<Thread> open;
  for (const Thread& thread : states_[index].threads) {
    const GrammarElement& element = grammar_->element(thread.element);
    if (element.low <= byte && byte <= element.high) {
      open.push_back({thread.element + 1, thread.frame});
    }
  }
  const State found = open.empty() ? kDead : close(std::move(open));
  (*states_[index].next)[byte] = found;
  return found;
}

}  // namespace nibble::text
