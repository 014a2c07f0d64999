#include "text/grammar/token_mask.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "text/regex/regex.h"

namespace nibble::text {

TokenTree::TokenTree(const Tokenizer& tokenizer) {
  pieces_.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
  PatternBudget budget;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const auto token = static_cast<std::int32_t>(id);
    if (!tokenizer.is_special(token)) {
      pieces_[id] = tokenizer.piece(token, budget);
    }
  }
  build();
}

TokenTree::TokenTree(const std::vector<std::string>& pieces) : pieces_(pieces) {
  build();
}

// Tokens in the order of their bytes; a node is a run of them that begin alike.
void TokenTree::build() {
  std::vector<std::int32_t> sorted;
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    if (!pieces_[id].empty()) {
      sorted.push_back(static_cast<std::int32_t>(id));
    }
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](std::int32_t a, std::int32_t b) { return piece(a) < piece(b); });
  struct Run {
    std::size_t begin;
    std::size_t end;
    std::size_t depth;
  };
  std::vector<Run> runs = {{0, sorted.size(), 0}};  // of each node
  nodes_.emplace_back();
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    Run run = runs[node];
    nodes_[node].first_token = static_cast<std::int32_t>(tokens_.size());
    while (run.begin < run.end && piece(sorted[run.begin]).size() == run.depth) {
      tokens_.push_back(sorted[run.begin++]);
      ++nodes_[node].tokens;
    }
    nodes_[node].first_child = static_cast<std::int32_t>(nodes_.size());
    while (run.begin < run.end) {
      const char byte = piece(sorted[run.begin])[run.depth];
      std::size_t end = run.begin;
      while (end < run.end && piece(sorted[end])[run.depth] == byte) {
        ++end;
      }
      nodes_.push_back({static_cast<std::uint8_t>(byte), 0, 0, 0, 0});
      runs.push_back({run.begin, end, run.depth + 1});
      ++nodes_[node].children;
      run.begin = end;
    }
  }
}

GrammarConstraint::GrammarConstraint(std::shared_ptr<const Grammar> grammar,
                                     std::shared_ptr<const TokenTree> tree)
    : tree_(std::move(tree)), matcher_(std::move(grammar)), state_(matcher_.start()) {}

const TokenMask& GrammarConstraint::mask() {
  const auto known = masks_.find(state_);
  if (known != masks_.end()) {
    return known->second;
  }
  if (masks_.size() >= kKeptMasks) {
    masks_.clear();
  }
  TokenMask& mask = masks_[state_];
  mask.assign(static_cast<std::size_t>(tree_->vocabulary() + 63) / 64, 0);
  std::vector<std::pair<std::int32_t, GrammarMatcher::State>> open = {{0, state_}};
  while (!open.empty()) {
    const auto [number, state] = open.back();
    open.pop_back();
    const TokenTree::Node& node = tree_->nodes()[static_cast<std::size_t>(number)];
    for (std::int32_t i = 0; i < node.tokens; ++i) {
      const auto id =
          static_cast<std::size_t>(tree_->tokens()[static_cast<std::size_t>(node.first_token + i)]);
      mask[id / 64] |= std::uint64_t{1} << (id % 64);
    }
    for (std::int32_t i = 0; i < node.children; ++i) {
      const std::int32_t child = node.first_child + i;
      const auto next = matcher_.next(state, tree_->nodes()[static_cast<std::size_t>(child)].byte);
      if (next != GrammarMatcher::kDead) {
        open.push_back({child, next});
      }
    }
  }
  return mask;
}

void GrammarConstraint::accept(std::int32_t id) {
  matcher_.allow_bytes(tree_->piece(id).size());
  for (const char c : tree_->piece(id)) {
    state_ = matcher_.next(state_, static_cast<std::uint8_t>(c));
  }
  core::require(state_ != GrammarMatcher::kDead, core::ErrorKind::kFailed,
                "token {} does not go on with the text of the grammar", id);
}

}  // namespace nibble::text
