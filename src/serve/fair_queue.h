#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>

namespace nibble::serve {

/// Clients take turns: the one for which the least is under way goes first, of those that are equal
/// the one that has waited longest. What one client waits for comes in its order.
template <typename Item>
class FairQueue {
 public:
  void push(const std::string& client, Item item) {
    std::deque<Item>& items = items_[client];
    if (items.empty()) {
      turns_.push_back(client);
    }
    items.push_back(std::move(item));
  }

  /// The next client's next item, which is under way until finish(). Not of an empty queue.
  std::pair<std::string, Item> pop() {
    const auto turn = std::min_element(
        turns_.begin(), turns_.end(),
        [this](const auto& a, const auto& b) { return under_way(a) < under_way(b); });
    std::string client = std::move(*turn);
    turns_.erase(turn);
    const auto at = items_.find(client);
    Item item = std::move(at->second.front());
    at->second.pop_front();
    if (at->second.empty()) {
      items_.erase(at);
    } else {
      turns_.push_back(client);
    }
    ++under_way_[client];
    return {std::move(client), std::move(item)};
  }

  void finish(const std::string& client) {
    const auto at = under_way_.find(client);
    if (--at->second == 0) {
      under_way_.erase(at);
    }
  }

  bool empty() const { return turns_.empty(); }
  std::size_t size_of(const std::string& client) const {
    const auto at = items_.find(client);
    return at == items_.end() ? 0 : at->second.size();
  }

 private:
  std::size_t under_way(const std::string& client) const {
    const auto at = under_way_.find(client);
    return at == under_way_.end() ? 0 : at->second;
  }

  std::unordered_map<std::string, std::deque<Item>> items_;
  std::unordered_map<std::string, std::size_t> under_way_;
  std::deque<std::string> turns_;  // clients that wait for something
};

}  // namespace nibble::serve
