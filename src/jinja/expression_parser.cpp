#include "jinja/expression_parser.h"

#include <initializer_list>
#include <optional>

#include "jinja/expression_builder.h"
#include "jinja/limits.h"

namespace nibble::jinja {
namespace {

ExprPtr make_arithmetic(Position at, Operator op, ExprPtr left, ExprPtr right) {
  return Builder(at).over(left).over(right).make(Arithmetic{op, std::move(left), std::move(right)});
}

std::optional<Comparison> comparison_of(const Token& token) {
  constexpr std::array<std::pair<std::string_view, Comparison>, 6> kSymbols = {{
      {"==", Comparison::kEqual},
      {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater},
      {">=", Comparison::kGreaterEqual},
  }};
  for (const auto& [symbol, comparison] : kSymbols) {
    if (token.is_operator(symbol)) {
      return comparison;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> constant_of(std::string_view name) {
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    return Value::boolean(name.front() == 't' || name.front() == 'T');
  }
  if (name == "none" || name == "None") {
    return Value();
  }
  return std::nullopt;
}

NestingGuard::NestingGuard(int& depth, Position at) : depth_(depth) {
  if (depth_ >= kMaxNesting) {
    fail_at(at, "the template nests deeper than {} levels", kMaxNesting);
  }
  ++depth_;
}

ExprPtr ExpressionParser::parse_expression() {
  const Position at = stream_.current().at;
  const NestingGuard guard(nesting_, at);
  ExprPtr result = parse_or();
  while (stream_.skip_name("if")) {
    ExprPtr condition = parse_or();
    ExprPtr otherwise = stream_.skip_name("else") ? parse_expression() : nullptr;
    result = Builder(at).over(result).over(condition).over(otherwise).make(
        Conditional{std::move(condition), std::move(result), std::move(otherwise)});
  }
  return result;
}

ExprPtr ExpressionParser::parse_unconditional() {
  const NestingGuard guard(nesting_, stream_.current().at);
  return parse_or();
}

ExprPtr ExpressionParser::parse_or() {
  const Position at = stream_.current().at;
  ExprPtr left = parse_and();
  while (stream_.skip_name("or")) {
    ExprPtr right = parse_and();
    left =
        Builder(at).over(left).over(right).make(Logical{false, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  const Position at = stream_.current().at;
  ExprPtr left = parse_not();
  while (stream_.skip_name("and")) {
    ExprPtr right = parse_not();
    left =
        Builder(at).over(left).over(right).make(Logical{true, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  const Position at = stream_.current().at;
  if (!stream_.skip_name("not")) {
    return parse_comparison();
  }
  const NestingGuard guard(nesting_, at);
  ExprPtr operand = parse_not();
  return Builder(at).over(operand).make(Not{std::move(operand)});
}

ExprPtr ExpressionParser::parse_comparison() {
  Compare compare;
  compare.first = parse_sum();
  const Position at = stream_.current().at;
  Builder builder(at);
  builder.over(compare.first);
  while (true) {
    std::optional<Comparison> comparison = comparison_of(stream_.current());
    if (stream_.current().is_name("in")) {
      comparison = Comparison::kIn;
    } else if (stream_.current().is_name("not") && stream_.ahead().is_name("in")) {
      stream_.take();
      comparison = Comparison::kNotIn;
    }
    if (!comparison.has_value()) {
      break;
    }
    stream_.take();
    compare.rest.emplace_back(*comparison, parse_sum());
    builder.over(compare.rest.back().second);
  }
  return compare.rest.empty() ? std::move(compare.first) : builder.make(std::move(compare));
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (stream_.current().is_operator("+") || stream_.current().is_operator("-")) {
    const Token token = stream_.take();
    const Operator op = token.text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = make_arithmetic(token.at, op, std::move(left), parse_concat());
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  const Position at = stream_.current().at;
  ExprPtr first = parse_product();
  if (!stream_.current().is_operator("~")) {
    return first;
  }
  Builder builder(at);
  builder.over(first);
  Concat concat;
  concat.parts.push_back(std::move(first));
  while (stream_.skip_operator("~")) {
    concat.parts.push_back(parse_product());
    builder.over(concat.parts.back());
  }
  return builder.make(std::move(concat));
}

ExprPtr ExpressionParser::parse_product() {
  constexpr std::array<std::pair<std::string_view, Operator>, 4> kSymbols = {{
      {"*", Operator::kMultiply},
      {"/", Operator::kDivide},
      {"//", Operator::kFloorDivide},
      {"%", Operator::kModulo},
  }};
  ExprPtr left = parse_unary();
  while (true) {
    const auto symbol = std::find_if(kSymbols.begin(), kSymbols.end(), [&](const auto& row) {
      return stream_.current().is_operator(row.first);
    });
    if (symbol == kSymbols.end()) {
      return left;
    }
    const Position at = stream_.take().at;
    left = make_arithmetic(at, symbol->second, std::move(left), parse_unary());
  }
}

// Filters and tests bind tighter than * and looser than a sign: -1|string is (-1)|string.
ExprPtr ExpressionParser::parse_unary() {
  return parse_filters_and_tests(parse_operand());
}

ExprPtr ExpressionParser::parse_operand() {
  const Position at = stream_.current().at;
  if (!stream_.skip_operator("-")) {
    return parse_postfix(parse_primary());
  }
  const NestingGuard guard(nesting_, at);
  ExprPtr operand = parse_operand();
  return Builder(at).over(operand).make(Negation{std::move(operand)});
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  const Position at = token.at;
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kNumber:
      return Builder(at).make(Literal{stream_.take().number});
    default:
      break;
  }
  if (stream_.skip_operator("(")) {
    ExprPtr inside = stream_.current().is_operator(")")
                         ? Builder(at).make(SequenceLiteral{true, {}})
                         : parse_tuple(true);
    stream_.expect_operator(")");
    return inside;
  }
  if (stream_.skip_operator("[")) {
    return parse_list();
  }
  if (stream_.skip_operator("{")) {
    return parse_dict();
  }
  stream_.fail_unexpected("an expression");
}

ExprPtr ExpressionParser::parse_name() {
  Token token = stream_.take();
  if (const auto constant = constant_of(token.text)) {
    return Builder(token.at).make(Literal{*constant});
  }
  return Builder(token.at).make(Name{std::move(token.text)});
}

// Strings side by side are one string.
ExprPtr ExpressionParser::parse_string() {
  const Position at = stream_.current().at;
  std::string text;
  while (stream_.current().is(TokenKind::kString)) {
    text += stream_.take().text;
  }
  return Builder(at).make(Literal{Value::text(std::move(text))});
}

ExprPtr ExpressionParser::parse_list() {
  Builder builder(stream_.current().at);
  SequenceLiteral list;
  while (!stream_.current().is_operator("]")) {
    list.items.push_back(parse_expression());
    builder.over(list.items.back());
    if (!stream_.skip_operator(",")) {
      break;
    }
  }
  stream_.expect_operator("]");
  return builder.make(std::move(list));
}

ExprPtr ExpressionParser::parse_dict() {
  Builder builder(stream_.current().at);
  DictLiteral dict;
  while (!stream_.current().is_operator("}")) {
    ExprPtr key = parse_expression();
    stream_.expect_operator(":");
    ExprPtr value = parse_expression();
    builder.over(key).over(value);
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!stream_.skip_operator(",")) {
      break;
    }
  }
  stream_.expect_operator("}");
  return builder.make(std::move(dict));
}

bool ExpressionParser::at_tuple_end() const {
  const Token& token = stream_.current();
  return token.is(TokenKind::kOutputEnd) || token.is(TokenKind::kBlockEnd) ||
         token.is_operator(")");
}

ExprPtr ExpressionParser::parse_tuple(bool with_conditional) {
  Builder builder(stream_.current().at);
  SequenceLiteral tuple{true, {}};
  bool has_comma = false;
  while (!at_tuple_end()) {
    tuple.items.push_back(with_conditional ? parse_expression() : parse_unconditional());
    builder.over(tuple.items.back());
    if (!stream_.skip_operator(",")) {
      break;
    }
    has_comma = true;
  }
  if (tuple.items.empty()) {
    stream_.fail_unexpected("an expression");
  }
  return has_comma ? builder.make(std::move(tuple)) : std::move(tuple.items.front());
}

}  // namespace nibble::jinja
