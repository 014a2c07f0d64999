#include "text/byte_trie.h"

#include <algorithm>

namespace nibble::text {
namespace {

// The entries [begin, end) share their first `depth` bytes: those that lead to one node.
struct Pending {
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<Entry> entries) : root_children_(256, -1) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.key < b.key; });
  std::vector<Pending> nodes = {{0, entries.size(), 0}};
  labels_.push_back(0);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    auto [at, end, depth] = nodes[node];
    std::int32_t value = -1;
    for (; at < end && entries[at].key.size() == depth; ++at) {
      value = entries[at].value;
    }
    values_.push_back(value);
    first_.push_back(static_cast<std::int32_t>(nodes.size()));
    while (at < end) {
      const char label = entries[at].key[depth];
      const std::size_t begin = at;
      while (at < end && entries[at].key[depth] == label) {
        ++at;
      }
      if (node == 0) {
        root_children_[static_cast<unsigned char>(label)] = static_cast<std::int32_t>(nodes.size());
      }
      nodes.push_back({begin, at, depth + 1});
      labels_.push_back(static_cast<unsigned char>(label));
    }
  }
  first_.push_back(static_cast<std::int32_t>(nodes.size()));
}

std::optional<ByteTrie::Match> ByteTrie::longest_prefix(std::string_view text) const {
  std::optional<Match> found;
  for_each_prefix(text, [&](std::size_t bytes, std::int32_t value) { found = {bytes, value}; });
  return found;
}

}  // namespace nibble::text
