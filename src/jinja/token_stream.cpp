#include "jinja/token_stream.h"

namespace nibble::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kText:
      return "template text";
    case TokenKind::kOutputBegin:
      return "'{{'";
    case TokenKind::kOutputEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kNumber:
      return "a number";
    case TokenKind::kName:
    case TokenKind::kOperator:
      return fmt::format("'{}'", core::printable(token.text, 40));
    case TokenKind::kEnd:
      break;
  }
  return "the end of the template";
}

}  // namespace

Token TokenStream::take() {
  if (at_end()) {
    return current();
  }
  return std::move(tokens_[at_++]);
}

bool TokenStream::skip_operator(std::string_view symbol) {
  const bool found = current().is_operator(symbol);
  at_ += found ? 1 : 0;
  return found;
}

bool TokenStream::skip_name(std::string_view name) {
  const bool found = current().is_name(name);
  at_ += found ? 1 : 0;
  return found;
}

void TokenStream::expect_operator(std::string_view symbol) {
  if (!skip_operator(symbol)) {
    fail_unexpected(fmt::format("'{}'", symbol));
  }
}

void TokenStream::expect_name(std::string_view name) {
  if (!skip_name(name)) {
    fail_unexpected(fmt::format("'{}'", name));
  }
}

std::string TokenStream::expect_any_name() {
  if (!current().is(TokenKind::kName)) {
    fail_unexpected("a name");
  }
  return take().text;
}

void TokenStream::expect(TokenKind kind) {
  if (!current().is(kind)) {
    fail_unexpected(describe({kind, {}, {}, {}}));
  }
  take();
}

void TokenStream::fail_unexpected(std::string_view wanted) const {
  fail_at(current().at, "expected {}, found {}", wanted, describe(current()));
}

}  // namespace nibble::jinja
