#include <initializer_list>
#include <optional>

#include "jinja/expression_builder.h"
#include "jinja/expression_parser.h"
#include "jinja/limits.h"

namespace nibble::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr operand) {
  while (true) {
    const Position at = stream_.current().at;
    if (stream_.skip_operator(".")) {
      operand = parse_attribute(std::move(operand));
    } else if (stream_.skip_operator("[")) {
      operand = parse_subscript(std::move(operand));
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

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr operand) {
  while (true) {
    const Position at = stream_.current().at;
    if (stream_.skip_operator("|")) {
      operand = parse_filter(std::move(operand));
    } else if (stream_.skip_name("is")) {
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
  if (!token.is(TokenKind::kInteger)) {
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

std::string ExpressionParser::parse_dotted_name() {
  std::string name = stream_.expect_any_name();
  while (stream_.skip_operator(".")) {
    name.append(".").append(stream_.expect_any_name());
  }
  return name;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr operand) {
  const Position at = stream_.current().at;
  std::string name = parse_dotted_name();
  const Builtin* builtin = find_filter(name);
  CallArguments arguments;
  if (stream_.current().is_operator("(")) {
    arguments = parse_arguments();
  }
  Builder filter(at);
  filter.over(operand).over(arguments);
  return filter.make(Filter{std::move(operand), std::move(name), builtin, std::move(arguments)});
}

ExprPtr ExpressionParser::parse_filters_of_block() {
  ExprPtr filters = parse_filter(Builder(stream_.current().at).make(CapturedText{}));
  while (stream_.skip_operator("|")) {
    filters = parse_filter(std::move(filters));
  }
  return filters;
}

ExprPtr ExpressionParser::parse_test(ExprPtr operand) {
  const Position at = stream_.current().at;
  const bool negated = stream_.skip_name("not");
  std::string name = parse_dotted_name();
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
             next.is(TokenKind::kInteger) || next.is(TokenKind::kFloat) || next.is_operator("[") ||
             next.is_operator("{")) {
    arguments.positional.push_back(parse_postfix(parse_primary()));
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
  const auto refuse_after = [&](bool too_late) {
    if (too_late) {
      fail_at(at, "the arguments of this call stand in a wrong order");
    }
  };
  const bool has_named = !arguments.named.empty();
  const bool has_star = arguments.more_positional != nullptr;
  const bool has_stars = arguments.more_named != nullptr;
  if (stream_.skip_operator("*")) {
    refuse_after(has_star || has_stars);
    arguments.more_positional = parse_expression();
  } else if (stream_.skip_operator("**")) {
    refuse_after(has_stars);
    arguments.more_named = parse_expression();
  } else if (stream_.current().is(TokenKind::kName) && stream_.ahead().is_operator("=")) {
    refuse_after(has_stars);
    std::string name = stream_.take().text;
    stream_.take();
    arguments.named.emplace_back(std::move(name), parse_expression());
  } else {
    refuse_after(has_named || has_star || has_stars);
    arguments.positional.push_back(parse_expression());
  }
}

Target ExpressionParser::parse_single_target(bool attributes) {
  const NestingGuard guard(nesting_, stream_.current().at);
  Target target;
  target.at = stream_.current().at;
  if (stream_.skip_operator("(")) {
    target = parse_target(attributes);
    stream_.expect_operator(")");
    return target;
  }
  if (!stream_.current().is(TokenKind::kName)) {
    stream_.fail_unexpected("a name to assign to");
  }
  target.name = stream_.take().text;
  if (constant_of(target.name).has_value()) {
    fail_at(target.at, "cannot assign to '{}'", target.name);
  }
  if (attributes && stream_.skip_operator(".")) {
    target.attribute = stream_.expect_any_name();
  }
  return target;
}

Target ExpressionParser::parse_target(bool attributes) {
  Target tuple;
  tuple.at = stream_.current().at;
  while (true) {
    tuple.items.push_back(parse_single_target(attributes));
    if (!stream_.skip_operator(",")) {
      break;
    }
    tuple.is_tuple = true;
    if (at_tuple_end("in") || stream_.current().is_operator("=")) {
      break;
    }
  }
  return tuple.is_tuple ? std::move(tuple) : Target(std::move(tuple.items.front()));
}

}  // namespace nibble::jinja
