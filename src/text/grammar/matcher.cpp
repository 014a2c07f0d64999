#include "text/grammar/matcher.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace nibble::text {

using core::ErrorKind;
using Kind = GrammarElement::Kind;

bool GrammarThreadSet::insert(const GrammarThread& thread) {
  if (2 * (count_ + 1) > slots_.size()) {
    grow();
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = GrammarThreadHash()(thread) & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.round != round_) {
      slot = {thread, round_};
      ++count_;
      return true;
    }
    if (slot.thread == thread) {
      return false;
    }
  }
}

void GrammarThreadSet::grow() {
  std::vector<Slot> slots(slots_.size() * 2);
  slots.swap(slots_);
  count_ = 0;
  for (const Slot& slot : slots) {
    if (slot.round == round_) {
      insert(slot.thread);
    }
  }
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  std::vector<GrammarThread> open;
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

void GrammarMatcher::pay(std::size_t steps) {
  steps_left_ -= static_cast<std::int64_t>(steps);
  core::require(steps_left_ >= 0, ErrorKind::kUsage,
                "the grammar can read a text in too many ways; give its repetitions within "
                "repetitions smaller bounds, or choices that begin differently");
}

// Follows rules and ends until every thread stands before a byte.
GrammarMatcher::State GrammarMatcher::close(std::vector<GrammarThread> open) {
  std::vector<GrammarThread> ready;
  bool complete = false;
  seen_.clear();
  const auto add = [&](GrammarThread thread) {
    if (seen_.insert(thread)) {
      open.push_back(thread);
    }
  };
  for (const GrammarThread& thread : open) {
    seen_.insert(thread);
  }
  while (!open.empty()) {
    const GrammarThread thread = open.back();
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
    core::require(seen_.size() <= kMaxThreads, ErrorKind::kUsage,
                  "the grammar has more than {} ways to go on at once", kMaxThreads);
  }
  pay(seen_.size());
  return ready.empty() && !complete ? kDead : number_of(std::move(ready), complete);
}

GrammarMatcher::State GrammarMatcher::number_of(std::vector<GrammarThread> threads, bool complete) {
  std::sort(threads.begin(), threads.end());
  std::size_t hash = complete ? 1 : 0;
  for (const GrammarThread& thread : threads) {
    hash = hash * 1099511628211ull ^ GrammarThreadHash()(thread);
  }
  const auto [begin, end] = numbers_.equal_range(hash);
  const auto known = std::find_if(begin, end, [&](const auto& entry) {
    const MatchState& state = states_[static_cast<std::size_t>(entry.second)];
    return state.complete == complete && state.threads == threads;
  });
  if (known != end) {
    return known->second;
  }
  kept_ += threads.size();
  core::require(states_.size() < kMaxStates && kept_ <= kMaxKept && frames_.size() <= kMaxKept,
                ErrorKind::kUsage, "the grammar needs more than {} states for this text",
                states_.size());
  const auto number = static_cast<State>(states_.size());
  numbers_.emplace(hash, number);
  states_.push_back({std::move(threads), complete, {}});
  return number;
}

GrammarMatcher::State GrammarMatcher::next(State state, std::uint8_t byte) {
  if (state == kDead) {
    return kDead;
  }
  const auto index = static_cast<std::size_t>(state);
  const std::size_t byte_class = grammar_->byte_class(byte);
  if (states_[index].next.empty()) {
    states_[index].next.assign(grammar_->byte_classes(), kUnknown);
  }
  if (states_[index].next[byte_class] != kUnknown) {
    return states_[index].next[byte_class];
  }
  pay(states_[index].threads.size());
  std::vector<GrammarThread> open;
  for (const GrammarThread& thread : states_[index].threads) {
    const GrammarElement& element = grammar_->element(thread.element);
    if (element.low <= byte && byte <= element.high) {
      open.push_back({thread.element + 1, thread.frame});
    }
  }
  const State found = open.empty() ? kDead : close(std::move(open));
  states_[index].next[byte_class] = found;
  return found;
}

}  // namespace nibble::text
