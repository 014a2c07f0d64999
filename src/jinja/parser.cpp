#include "jinja/parser.h"

#include <algorithm>
#include <array>
#include <set>
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
  CallBlock parse_call();
  FilterBlock parse_filter_block();
  With parse_with();
  Generation parse_generation();
  void check_inside_loop(std::string_view tag, Position at) const;
  std::vector<Macro::Parameter> parse_parameters();
  void parse_macro_body(Macro& macro, std::string_view end, std::string_view opener);

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
  const NestingGuard guard(expressions_.nesting(), at);
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
  if (tag == "call") {
    return parse_call();
  }
  if (tag == "filter") {
    return parse_filter_block();
  }
  if (tag == "with") {
    return parse_with();
  }
  if (tag == "generation") {
    return parse_generation();
  }
  if (tag == "break") {
    check_inside_loop(tag, at);
    return Break{};
  }
  if (tag == "continue") {
    check_inside_loop(tag, at);
    return Continue{};
  }
  fail_at(at, "the tag '{}' is unknown or not supported in chat templates", core::printable(tag));
}

void StatementParser::check_inside_loop(std::string_view tag, Position at) const {
  if (loops_ == 0) {
    fail_at(at, "'{}' stands outside a loop", tag);
  }
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
  statement.iterable = expressions_.parse_tuple(false, "recursive");
  if (stream_.skip_name("if")) {
    statement.condition = expressions_.parse_expression();
  }
  if (stream_.current().is_name("recursive")) {
    fail_at(stream_.current().at, "recursive loops are not supported");
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
  ExprPtr filters;
  if (stream_.skip_operator("|")) {
    filters = expressions_.parse_filters_of_block();
  }
  return SetBlock{std::move(target), std::move(filters), parse_body("endset", "set")};
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

// Also finds out which of the special names the body asks for: only then may a call give them.
void StatementParser::parse_macro_body(Macro& macro, std::string_view end,
                                       std::string_view opener) {
  std::set<std::string>* outer_names = expressions_.gathered_names();
  std::set<std::string> names;
  const int outer_loops = std::exchange(loops_, 0);
  expressions_.gather_names(&names);
  macro.body = parse_body(end, opener);
  expressions_.gather_names(outer_names);
  loops_ = outer_loops;
  for (const Macro::Parameter& parameter : macro.parameters) {
    names.erase(parameter.name);
  }
  macro.uses_caller = names.contains("caller");
  macro.uses_varargs = names.contains("varargs");
  macro.uses_kwargs = names.contains("kwargs");
  if (outer_names != nullptr) {
    outer_names->insert(names.begin(), names.end());
  }
}

MacroStatement StatementParser::parse_macro() {
  auto macro = std::make_unique<Macro>();
  macro->name = stream_.expect_any_name();
  macro->parameters = parse_parameters();
  parse_macro_body(*macro, "endmacro", "macro");
  return {std::move(macro)};
}

CallBlock StatementParser::parse_call() {
  auto caller = std::make_unique<Macro>();
  caller->name = "caller";
  if (stream_.current().is_operator("(")) {
    caller->parameters = parse_parameters();
  }
  const Position at = stream_.current().at;
  ExprPtr call = expressions_.parse_expression();
  if (!std::holds_alternative<FunctionCall>(call->node)) {
    fail_at(at, "a call block needs a call, as in '{{% call name() %}}'");
  }
  parse_macro_body(*caller, "endcall", "call");
  return {std::move(caller), std::move(call)};
}

FilterBlock StatementParser::parse_filter_block() {
  ExprPtr filters = expressions_.parse_filters_of_block();
  return {std::move(filters), parse_body("endfilter", "filter")};
}

With StatementParser::parse_with() {
  With statement;
  while (!stream_.current().is(TokenKind::kBlockEnd)) {
    Target target = expressions_.parse_target(false);
    stream_.expect_operator("=");
    statement.variables.emplace_back(std::move(target), expressions_.parse_expression());
    if (!stream_.skip_operator(",")) {
      break;
    }
  }
  statement.body = parse_body("endwith", "with");
  return statement;
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
