#include "jinja/expression_parser.h"

#include <initializer_list>
#include <optional>

#include "jinja/expression_builder.h"
#include "jinja/limits.h"

namespace nibble::jinja {
namespace {

// From loosest to tightest; `not` stands between the second and the third.
constexpr int kComparisons = 2;
constexpr int kLevels = 6;

struct BinaryOperator {
  std::string_view symbol;
  Operator op;
  int level;
};

constexpr std::array<BinaryOperator, 16> kOperators = {{
    {"or", Operator::kOr, 0},
    {"and", Operator::kAnd, 1},
    {"==", Operator::kEqual, kComparisons},
    {"!=", Operator::kNotEqual, kComparisons},
    {"<", Operator::kLess, kComparisons},
    {"<=", Operator::kLessEqual, kComparisons},
    {">", Operator::kGreater, kComparisons},
    {">=", Operator::kGreaterEqual, kComparisons},
    {"in", Operator::kIn, kComparisons},
    {"+", Operator::kAdd, 3},
    {"-", Operator::kSubtract, 3},
    {"~", Operator::kConcat, 4},
    {"*", Operator::kMultiply, 5},
    {"/", Operator::kDivide, 5},
    {"//", Operator::kFloorDivide, 5},
    {"%", Operator::kModulo, 5},
}};

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

DepthGuard ExpressionParser::go_deeper() {
  return {nesting_, kMaxNesting, stream_.current().at, "the template nests"};
}

ExprPtr ExpressionParser::parse_expression() {
  const Position at = stream_.current().at;
  const DepthGuard guard = go_deeper();
  ExprPtr result = parse_binary(0);
  while (stream_.skip_name("if")) {
    ExprPtr condition = parse_binary(0);
    ExprPtr otherwise = stream_.skip_name("else") ? parse_expression() : nullptr;
    result = Builder(at).over(result).over(condition).over(otherwise).make(
        Conditional{std::move(condition), std::move(result), std::move(otherwise)});
  }
  return result;
}

ExprPtr ExpressionParser::parse_unconditional() {
  const DepthGuard guard = go_deeper();
  return parse_binary(0);
}

std::optional<Operator> ExpressionParser::take_operator(int level) {
  const Token& token = stream_.current();
  if (level == kComparisons && token.is_name("not") && stream_.ahead().is_name("in")) {
    stream_.take();
    stream_.take();
    return Operator::kNotIn;
  }
  for (const auto& [symbol, op, its_level] : kOperators) {
    if (its_level == level && (token.is_operator(symbol) || token.is_name(symbol))) {
      stream_.take();
      return op;
    }
  }
  return std::nullopt;
}

ExprPtr ExpressionParser::parse_binary(int level) {
  if (level == kLevels) {
    return parse_unary();
  }
  const Position start = stream_.current().at;
  if (level == kComparisons && stream_.skip_name("not")) {
    const DepthGuard guard = go_deeper();
    ExprPtr operand = parse_binary(level);
    return Builder(start).over(operand).make(Not{std::move(operand)});
  }
  ExprPtr left = parse_binary(level + 1);
  for (int count = 0;; ++count) {
    const Position at = stream_.current().at;
    const std::optional<Operator> op = take_operator(level);
    if (!op.has_value()) {
      return left;
    }
    if (level == kComparisons && count > 0) {
      fail_at(at, "a chain of comparisons is not supported by Nibble's templates");
    }
    ExprPtr right = parse_binary(level + 1);
    left = Builder(at).over(left).over(right).make(Binary{*op, std::move(left), std::move(right)});
  }
}

// Filters and tests bind tighter than * and looser than a sign: -1|string is (-1)|string.
ExprPtr ExpressionParser::parse_unary() {
  return parse_postfix(parse_operand(), Postfixes::kFiltersAndTests);
}

ExprPtr ExpressionParser::parse_operand() {
  const Position at = stream_.current().at;
  if (!stream_.skip_operator("-")) {
    return parse_postfix(parse_primary(), Postfixes::kParts);
  }
  const DepthGuard guard = go_deeper();
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
