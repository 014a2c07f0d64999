#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/matcher.h"
#include "text/tokenizer.h"

namespace nibble::text {

/// The bytes of all tokens that stand for text, as a tree: made once for a tokenizer. Immutable.
class TokenTree {
 public:
  explicit TokenTree(const Tokenizer& tokenizer);
  /// The same for any vocabulary: the bytes of each id, empty for those that stand for no text.
  explicit TokenTree(const std::vector<std::string>& pieces);

  std::int64_t vocabulary() const { return static_cast<std::int64_t>(pieces_.size()); }
  const std::string& piece(std::int32_t id) const { return pieces_[static_cast<std::size_t>(id)]; }

  /// Children of a node follow one another in `nodes`, in the order of their bytes.
  struct Node {
    std::uint8_t byte = 0;
    std::int32_t first_child = 0;
    std::int32_t children = 0;
    std::int32_t first_token = 0;  // in `tokens`: those whose bytes end here
    std::int32_t tokens = 0;
  };
  const std::vector<Node>& nodes() const { return nodes_; }  // the first is the root
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  void build();
  std::vector<std::string> pieces_;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> tokens_;
};

/// Which tokens may come next, a bit for each id.
using TokenMask = std::vector<std::uint64_t>;
inline bool allows(const TokenMask& mask, std::int32_t id) {
  return (mask[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

/// Follows the text of one sequence along a grammar. Not for several threads at once.
class GrammarConstraint {
 public:
  GrammarConstraint(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTree> tree);

  /// Tokens after which the text can still become one of the grammar's. Valid until the next call.
  const TokenMask& mask();
  /// Whether the text may end here; then end tokens are allowed beside the mask.
  bool complete() const { return matcher_.complete(state_); }
  /// Goes on with a token. Throws kFailed for one that the mask did not allow.
  void accept(std::int32_t id);

 private:
  static constexpr std::size_t kKeptMasks = 256;

  std::shared_ptr<const TokenTree> tree_;
  GrammarMatcher matcher_;
  GrammarMatcher::State state_;
  std::unordered_map<GrammarMatcher::State, TokenMask> masks_;
};

}  // namespace nibble::text
