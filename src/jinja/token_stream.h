#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/lexer.h"

namespace nibble::jinja {

/// A template's tokens, read from front to back with one token to look ahead.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool at_end() const { return current().is(TokenKind::kEnd); }

  /// Gives the current token and moves on; stays at the end.
  Token take();

  /// Moves on when the current token is that operator or name.
  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);

  /// Moves on past a token that must be there.
  void expect_operator(std::string_view symbol);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect(TokenKind kind);

  /// Throws "unexpected ...", with what was wanted instead.
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace nibble::jinja
