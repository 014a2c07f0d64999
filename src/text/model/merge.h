#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace nibble::text {

/// A part of a word while pairs are being merged: a node of a doubly linked list.
struct MergeSymbol {
  std::int32_t id = -1;
  std::int32_t previous = -1;  // index, -1 at the ends
  std::int32_t next = -1;
  std::uint32_t begin = 0;  // bytes of the word that it covers
  std::uint32_t bytes = 0;  // 0: merged into another symbol
};

/// A merge that may be done. Smaller goes first: by `order` (a rank, or a negated score), then from
/// left to right.
struct MergeCandidate {
  double order = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
  std::int32_t merged_id = 0;
  std::uint32_t bytes =
      0;  // of both; if the symbols now cover another number, the candidate is stale

  bool operator<(const MergeCandidate& other) const {
    return order != other.order ? order < other.order : left < other.left;
  }
};

struct MergeScratch {
  std::vector<MergeSymbol> symbols;
  std::vector<MergeCandidate> heap;

  void clear() {
    symbols.clear();
    heap.clear();
  }

  void append(std::int32_t id, std::uint32_t begin, std::uint32_t bytes) {
    const auto index = static_cast<std::int32_t>(symbols.size());
    if (index > 0) {
      symbols.back().next = index;
    }
    symbols.push_back({id, index - 1, -1, begin, bytes});
  }
};

/// What a merge of two neighbours gives, if it is allowed.
struct MergeResult {
  double order = 0;
  std::int32_t id = 0;
};

/// Merges neighbours until none can be: always the candidate that goes first (Sennrich et al. 2016,
/// arXiv 1508.07909). `Rule` is called with two symbols and gives an std::optional<MergeResult>. n
/// symbols take O(n log n): each merge removes one symbol and adds at most two candidates.
template <typename Rule>
class PairMerger {
 public:
  PairMerger(MergeScratch& scratch, const Rule& rule)
      : symbols_(scratch.symbols), heap_(scratch.heap), rule_(rule) {}

  /// Afterwards the symbols with bytes > 0 are what is left.
  void run() {
    heap_.clear();
    for (std::int32_t i = 0; i + 1 < static_cast<std::int32_t>(symbols_.size()); ++i) {
      add_candidate(i, i + 1);
    }
    std::make_heap(heap_.begin(), heap_.end(), goes_later);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), goes_later);
      const MergeCandidate top = heap_.back();
      heap_.pop_back();
      if (!is_stale(top)) {
        merge(top);
      }
    }
  }

 private:
  static bool goes_later(const MergeCandidate& a, const MergeCandidate& b) { return b < a; }

  MergeSymbol& symbol(std::int32_t index) { return symbols_[static_cast<std::size_t>(index)]; }

  bool is_stale(const MergeCandidate& candidate) {
    const MergeSymbol& left = symbol(candidate.left);
    const MergeSymbol& right = symbol(candidate.right);
    return left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != candidate.bytes;
  }

  bool add_candidate(std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) {
      return false;
    }
    const std::optional<MergeResult> result = rule_(symbol(left), symbol(right));
    if (!result) {
      return false;
    }
    heap_.push_back(
        {result->order, left, right, result->id, symbol(left).bytes + symbol(right).bytes});
    return true;
  }

  void push_candidate(std::int32_t left, std::int32_t right) {
    if (add_candidate(left, right)) {
      std::push_heap(heap_.begin(), heap_.end(), goes_later);
    }
  }

  void merge(const MergeCandidate& candidate) {
    MergeSymbol& left = symbol(candidate.left);
    MergeSymbol& right = symbol(candidate.right);
    left.id = candidate.merged_id;
    left.bytes = candidate.bytes;
    left.next = right.next;
    right.bytes = 0;
    if (left.next >= 0) {
      symbol(left.next).previous = candidate.left;
    }
    push_candidate(left.previous, candidate.left);
    push_candidate(candidate.left, left.next);
  }

  std::vector<MergeSymbol>& symbols_;
  std::vector<MergeCandidate>& heap_;
  const Rule& rule_;
};

}  // namespace nibble::text
