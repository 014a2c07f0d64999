#include <initializer_list>
#include <optional>

#include "jinja/expression_builder.h"
#include "jinja/expression_parser.h"
#include "jinja/limits.h"

namespace nibble::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr operand, Postfixes which) {
  const bool parts = which == Postfixes::kParts;
  while (true) {
    const Position at = stream_.current().at;
    if (parts && stream_.skip_operator(".")) {
      operand = parse_attribute(std::move(operand));
    } else if (parts && stream_.skip_operator("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (!parts && stream_.skip_operator("|")) {
      operand = parse_filter(std::move(operand));
    } else if (!parts && stream_.skip_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (stream_.current().is_operator("(")) {
      CallArguments arguments = parse_arguments();
      Builder call(at);
      call.over(operand).over(arguments);
      operand = call.make(FunctionCall{std::move(operand), std::move(arguments)});
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr object) {
  Token token = stream_.take();
  if (token.is(TokenKind::kName)) {
    return Builder(token.at).over(object).make(Attribute{std::move(object), std::move(token.text)});
  }
  if (!token.is(TokenKind::kNumber)) {
    fail_at(token.at, "expected a name or a number after '.'");
  }
  ExprPtr key = Builder(token.at).make(Literal{token.number});
  return Builder(token.at).over(object).make(Item{std::move(object), std::move(key)});
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const Position at = stream_.current().at;
  const auto at_end = [&] {
    return stream_.current().is_operator(":") || stream_.current().is_operator("]");
  };
  ExprPtr start = at_end() ? nullptr : parse_expression();
  if (start != nullptr && stream_.skip_operator("]")) {
    return Builder(at).over(object).over(start).make(Item{std::move(object), std::move(start)});
  }
  stream_.expect_operator(":");
  ExprPtr stop = at_end() ? nullptr : parse_expression();
  const bool has_step = stream_.skip_operator(":");
  ExprPtr step = has_step && !at_end() ? parse_expression() : nullptr;
  stream_.expect_operator("]");
  return Builder(at).over(object).over(start).over(stop).over(step).make(
      Slice{std::move(object), std::move(start), std::move(stop), std::move(step)});
}

ExprPtr ExpressionParser::parse_filter(ExprPtr operand) {
  const Position at = stream_.current().at;
  std::string name = stream_.expect_any_name();
  const Builtin* builtin = find_filter(name);
  CallArguments arguments;
  if (stream_.current().is_operator("(")) {
    arguments = parse_arguments();
  }
  Builder filter(at);
  filter.over(operand).over(arguments);
  return filter.make(Filter{std::move(operand), std::move(name), builtin, std::move(arguments)});
}

ExprPtr ExpressionParser::parse_test(ExprPtr operand) {
  const Position at = stream_.current().at;
  const bool negated = stream_.skip_name("not");
  std::string name = stream_.expect_any_name();
  const Builtin* builtin = find_test(name);
  CallArguments arguments;
  const Token& next = stream_.current();
  const bool ends = next.is_name("else") || next.is_name("or") || next.is_name("and");
  if (next.is_name("is")) {
    fail_at(next.at, "tests cannot be chained with 'is'");
  }
  if (next.is_operator("(")) {
    arguments = parse_arguments();
  } else if ((next.is(TokenKind::kName) && !ends) || next.is(TokenKind::kString) ||
             next.is(TokenKind::kNumber) || next.is_operator("[") || next.is_operator("{")) {
    arguments.positional.push_back(parse_postfix(parse_primary(), Postfixes::kParts));
  }
  Builder builder(at);
  builder.over(operand).over(arguments);
  ExprPtr test =
      builder.make(Test{std::move(operand), std::move(name), builtin, std::move(arguments)});
  return negated ? Builder(at).over(test).make(Not{std::move(test)}) : std::move(test);
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments arguments;
  stream_.expect_operator("(");
  while (!stream_.current().is_operator(")")) {
    parse_argument(arguments);
    if (!stream_.skip_operator(",")) {
      break;
    }
  }
  stream_.expect_operator(")");
  return arguments;
}

void ExpressionParser::parse_argument(CallArguments& arguments) {
  const Position at = stream_.current().at;
  if (stream_.current().is(TokenKind::kName) && stream_.ahead().is_operator("=")) {
    std::string name = stream_.take().text;
    stream_.take();
    arguments.named.emplace_back(std::move(name), parse_expression());
    return;
  }
  if (!arguments.named.empty()) {
    fail_at(at, "an argument without a name follows one with a name");
  }
  arguments.positional.push_back(parse_expression());
}

Target::Place ExpressionParser::parse_place(bool attributes) {
  Target::Place place;
  place.at = stream_.current().at;
  if (!stream_.current().is(TokenKind::kName)) {
    stream_.fail_unexpected("a name to assign to");
  }
  place.name = stream_.take().text;
  if (constant_of(place.name).has_value()) {
    fail_at(place.at, "cannot assign to '{}'", place.name);
  }
  if (attributes && stream_.skip_operator(".")) {
    place.attribute = stream_.expect_any_name();
  }
  return place;
}

Target ExpressionParser::parse_target(bool attributes) {
  Target target;
  const bool bracketed = stream_.skip_operator("(");
  target.places.push_back(parse_place(attributes));
  while (stream_.skip_operator(",")) {
    target.unpacks = true;
    target.places.push_back(parse_place(attributes));
  }
  if (bracketed) {
    stream_.expect_operator(")");
  }
  return target;
}

}  // namespace nibble::jinja
