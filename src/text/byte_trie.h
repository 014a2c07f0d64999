#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace nibble::text {

/// A set of byte strings, each with a value, for finding those that a text starts with.
///
/// Nodes are numbered breadth first, so that the children of a node are neighbours and their labels
/// one sorted run of bytes:
///
///   node       0 (root)   1    2    3   4  ...
///   labels_    -          a    b    a   c        label of the edge that leads to the node
///   first_     1          3    5    5   ...      number of its first child; the last is
///   first_[node + 1] - 1 values_    -1         7   -1    ...          value of the string that
///   ends here, or -1
class ByteTrie {
 public:
  /// Longest string that may be put in; a search at one place of a text takes at most as many
  /// steps.
  static constexpr std::size_t kMaxKeyBytes = 1024;

  struct Entry {
    std::string_view key;  // not empty, at most kMaxKeyBytes
    std::int32_t value;    // not negative
  };

  ByteTrie() : ByteTrie(std::vector<Entry>{}) {}

  /// Of equal keys the last one counts. The keys are not referred to afterwards.
  explicit ByteTrie(std::vector<Entry> entries);

  bool empty() const { return labels_.size() == 1; }

  struct Match {
    std::size_t bytes = 0;
    std::int32_t value = 0;
  };

  /// Calls visit(bytes, value) for each key that `text` starts with, shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, Visit visit) const {
    std::int32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) {
        return;
      }
      const std::int32_t value = values_[static_cast<std::size_t>(node)];
      if (value >= 0) {
        visit(i + 1, value);
      }
    }
  }

  /// The longest key that `text` starts with.
  std::optional<Match> longest_prefix(std::string_view text) const;

 private:
  std::int32_t child(std::int32_t node, unsigned char label) const {
    if (node == 0) {
      return root_children_[label];
    }
    const std::int32_t begin = first_[static_cast<std::size_t>(node)];
    const std::int32_t end = first_[static_cast<std::size_t>(node) + 1];
    if (begin == end) {
      return -1;
    }
    const unsigned char* labels = labels_.data() + begin;
    const void* found = std::memchr(labels, label, static_cast<std::size_t>(end - begin));
    return found == nullptr
               ? -1
               : begin +
                     static_cast<std::int32_t>(static_cast<const unsigned char*>(found) - labels);
  }

  std::vector<unsigned char> labels_;
  std::vector<std::int32_t> first_;  // one more than nodes
  std::vector<std::int32_t> values_;
  std::vector<std::int32_t> root_children_;  // [256], -1 for none
};

}  // namespace nibble::text
