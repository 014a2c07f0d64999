#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/runtime.h"
#include "jinja/value.h"

namespace nibble::jinja {

enum class TokenKind {
  kText,         // template text between tags
  kOutputBegin,  // {{
  kOutputEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // unescaped
  kNumber,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  Position at;
  std::string text;  // of a text, name, string or operator
  Value number;      // of a number

  bool is(TokenKind wanted) const { return kind == wanted; }
  bool is(TokenKind wanted, std::string_view content) const {
    return kind == wanted && text == content;
  }
  bool is_operator(std::string_view symbol) const { return is(TokenKind::kOperator, symbol); }
  bool is_name(std::string_view name) const { return is(TokenKind::kName, name); }
};

/// Splits a template into tokens, the last of which is kEnd. Applies white space control: the signs
/// in {%- -%} {%+ +%}, and Jinja's trim_blocks and lstrip_blocks, which chat templates are written
/// for: the newline after a block tag and the blanks before it on its line are dropped.
/// Throws kInvalidModel with the place for anything malformed.
std::vector<Token> tokenize(std::string_view source);

/// Unescapes the inside of a string literal as Python's unicode-escape does.
std::string unescape_literal(std::string_view literal, Position at);

/// Length of the number at the start of `text`: digits, perhaps with a fraction; 0 where there is
/// none.
std::size_t number_length(std::string_view text);

/// The value of such a number.
Value parse_number(std::string_view literal, Position at);

}  // namespace nibble::jinja
