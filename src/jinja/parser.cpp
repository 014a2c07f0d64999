#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <span>

#include "jinja/expression_parser.h"

namespace nibble::jinja {
namespace {

class StatementParser {
 public:
  explicit StatementParser(std::string_view source)
      : stream_(tokenize(source)), expressions_(stream_) {}

  Block parse() { return parse_until({}); }

 private:
  using Names = std::span<const std::string_view>;

  Block parse_until(Names ends);
  Block parse_body(Names ends, std::string_view opener);
  Block parse_body(std::string_view end, std::string_view opener);
  void parse_tag(Block& block);
  Statement::Node parse_statement(const std::string& tag, Position at);
  If parse_if();
  For parse_for();
  Statement::Node parse_set();
  MacroStatement parse_macro();
  Generation parse_generation();
  std::vector<Macro::Parameter> parse_parameters();

  TokenStream stream_;
  ExpressionParser expressions_;
  int loops_ = 0;  // for statements around the current place, within the same macro
};

// Statements up to a tag called one of `ends`, whose name is then the current token, or up to the
// end of the template.
Block StatementParser::parse_until(Names ends) {
  Block block;
  while (!stream_.at_end()) {
    const Token& token = stream_.current();
    if (token.is(TokenKind::kText)) {
      const Position at = token.at;
      block.push_back({at, TextPiece{stream_.take().text}});
    } else if (token.is(TokenKind::kOutputBegin)) {
      const Position at = stream_.take().at;
      block.push_back({at, Output{expressions_.parse_tuple(true)}});
      stream_.expect(TokenKind::kOutputEnd);
    } else {
      stream_.expect(TokenKind::kBlockBegin);
      const bool found = std::any_of(ends.begin(), ends.end(), [&](std::string_view end) {
        return stream_.current().is_name(end);
      });
      if (found) {
        return block;
      }
      parse_tag(block);
    }
  }
  return block;
}

// The body of a block: ends with the current token being one of `ends`.
Block StatementParser::parse_body(Names ends, std::string_view opener) {
  stream_.skip_operator(":");
  const Position at = stream_.current().at;
  stream_.expect(TokenKind::kBlockEnd);
  Block block = parse_until(ends);
  if (stream_.at_end()) {
    fail_at(at, "the block '{}' is not closed; '{{% {} %}}' is missing", opener, ends.back());
  }
  return block;
}

Block StatementParser::parse_body(std::string_view end, std::string_view opener) {
  Block block = parse_body(Names(&end, 1), opener);
  stream_.take();
  return block;
}

void StatementParser::parse_tag(Block& block) {
  const Position at = stream_.current().at;
  const DepthGuard guard = expressions_.go_deeper();
  const std::string tag = stream_.expect_any_name();
  block.push_back({at, parse_statement(tag, at)});
  stream_.expect(TokenKind::kBlockEnd);
}

Statement::Node StatementParser::parse_statement(const std::string& tag, Position at) {
  if (tag == "if") {
    return parse_if();
  }
  if (tag == "for") {
    return parse_for();
  }
  if (tag == "set") {
    return parse_set();
  }
  if (tag == "macro") {
    return parse_macro();
  }
  if (tag == "generation") {
    return parse_generation();
  }
  if (tag == "break" || tag == "continue") {
    if (loops_ == 0) {
      fail_at(at, "'{}' stands outside a loop", tag);
    }
    return Jump{tag == "break"};
  }
  fail_at(at, "the tag '{}' is not supported by Nibble's templates", core::printable(tag));
}

If StatementParser::parse_if() {
  constexpr std::array<std::string_view, 3> kEnds = {"elif", "else", "endif"};
  If statement;
  while (true) {
    ExprPtr condition = expressions_.parse_tuple(false);
    statement.branches.emplace_back(std::move(condition), parse_body(kEnds, "if"));
    const std::string end = stream_.take().text;
    if (end == "else") {
      statement.otherwise = parse_body("endif", "else");
    }
    if (end != "elif") {
      return statement;
    }
  }
}

For StatementParser::parse_for() {
  constexpr std::array<std::string_view, 2> kEnds = {"else", "endfor"};
  For statement;
  statement.target = expressions_.parse_target(false);
  stream_.expect_name("in");
  statement.iterable = expressions_.parse_tuple(false);
  if (stream_.skip_name("if")) {
    statement.condition = expressions_.parse_expression();
  }
  ++loops_;
  statement.body = parse_body(kEnds, "for");
  --loops_;
  if (stream_.take().text == "else") {
    statement.has_otherwise = true;
    statement.otherwise = parse_body("endfor", "else");
  }
  return statement;
}

Statement::Node StatementParser::parse_set() {
  Target target = expressions_.parse_target(true);
  if (stream_.skip_operator("=")) {
    return Set{std::move(target), expressions_.parse_tuple(true)};
  }
  return SetBlock{std::move(target), parse_body("endset", "set")};
}

std::vector<Macro::Parameter> StatementParser::parse_parameters() {
  std::vector<Macro::Parameter> parameters;
  bool has_fallback = false;
  stream_.expect_operator("(");
  while (!stream_.current().is_operator(")")) {
    Macro::Parameter parameter;
    const Position at = stream_.current().at;
    parameter.name = stream_.expect_any_name();
    if (stream_.skip_operator("=")) {
      parameter.fallback = expressions_.parse_expression();
      has_fallback = true;
    } else if (has_fallback) {
      fail_at(at, "a parameter without default follows one with a default");
    }
    parameters.push_back(std::move(parameter));
    if (!stream_.skip_operator(",")) {
      break;
    }
  }
  stream_.expect_operator(")");
  return parameters;
}

MacroStatement StatementParser::parse_macro() {
  auto macro = std::make_unique<Macro>();
  macro->name = stream_.expect_any_name();
  macro->parameters = parse_parameters();
  const int outer_loops = std::exchange(loops_, 0);
  macro->body = parse_body("endmacro", "macro");
  loops_ = outer_loops;
  return {std::move(macro)};
}

Generation StatementParser::parse_generation() {
  const int outer_loops = std::exchange(loops_, 0);
  Generation statement{parse_body("endgeneration", "generation")};
  loops_ = outer_loops;
  return statement;
}

}  // namespace

Block parse_template(std::string_view source) {
  return StatementParser(source).parse();
}

}  // namespace nibble::jinja
