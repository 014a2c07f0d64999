#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>

namespace nibble::engine {

/// Steps by their kinds, at most so many: those that were asked for last.
template <typename Kind, typename Step>
class RecentSteps {
 public:
  explicit RecentSteps(std::size_t most) : most_(most) {}

  /// The step of a kind, or null; it is the last one that was asked for then.
  Step* find(const Kind& kind) {
    const auto at = std::find_if(steps_.begin(), steps_.end(),
                                 [&](const auto& known) { return known.first == kind; });
    if (at == steps_.end()) {
      return nullptr;
    }
    steps_.splice(steps_.begin(), steps_, at);
    return &at->second;
  }

  /// A step of a kind that is not there yet. Where there are as many as may be, the one that was
  /// not asked for the longest makes room.
  Step& add(const Kind& kind) {
    if (steps_.size() >= most_) {
      steps_.pop_back();
    }
    return steps_.emplace_front(kind, Step{}).second;
  }

  void clear() { steps_.clear(); }

  std::size_t size() const { return steps_.size(); }

 private:
  std::size_t most_;
  std::list<std::pair<Kind, Step>> steps_;  // asked for last first
};

}  // namespace nibble::engine
