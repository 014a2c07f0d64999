#include "jinja/compare.h"
#include "jinja/interpreter.h"
#include "jinja/spell.h"
#include "jinja/subscript.h"

namespace nibble::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  const DepthGuard level = go_deeper();
  runtime_.at(expr.at);
  runtime_.step();
  return std::visit([&](const auto& node) { return value_of(node, expr.at); }, expr.node);
}

Value Interpreter::evaluate_or(const ExprPtr& expr, Value fallback) {
  return expr == nullptr ? std::move(fallback) : evaluate(*expr);
}

Value Interpreter::value_of(const Literal& node, Position) {
  return node.value;
}

Value Interpreter::value_of(const Name& node, Position) {
  if (const Value* value = find_variable(node.name)) {
    return *value;
  }
  if (const Builtin* global = find_global(node.name)) {
    return Value(
        Value::Storage(std::make_shared<const Function>(Function{global, {}, nullptr, 0})));
  }
  return Value::undefined(fmt::format("'{}' is undefined", core::printable(node.name)));
}

Value Interpreter::value_of(const SequenceLiteral& node, Position at) {
  Items items;
  for (const ExprPtr& item : node.items) {
    items.push_back(evaluate(*item));
  }
  runtime_.at(at);
  return make_sequence(runtime_, std::move(items),
                       node.tuple ? Sequence::Form::kTuple : Sequence::Form::kList);
}

Value Interpreter::value_of(const DictLiteral& node, Position at) {
  Dict dict;
  for (const auto& [key_expr, value_expr] : node.entries) {
    Value key = evaluate(*key_expr);
    runtime_.at(at);
    runtime_.require(key.is_string(), "the keys of a dict must be strings, got a {}",
                     key.type_name());
    dict.set(std::move(key), evaluate(*value_expr));
  }
  runtime_.at(at);
  return make_dict(runtime_, std::move(dict));
}

Value Interpreter::value_of(const Not& node, Position) {
  return Value::boolean(!is_true(evaluate(*node.operand)));
}

Value Interpreter::value_of(const Negation& node, Position at) {
  const Value operand = evaluate(*node.operand);
  runtime_.at(at);
  return calculate(runtime_, Operator::kSubtract, Value::integer(0), operand);
}

Value Interpreter::value_of(const Binary& node, Position at) {
  Value left = evaluate(*node.left);
  if (node.op == Operator::kAnd || node.op == Operator::kOr) {
    return is_true(left) == (node.op == Operator::kAnd) ? evaluate(*node.right) : left;
  }
  const Value right = evaluate(*node.right);
  runtime_.at(at);
  if (node.op == Operator::kConcat) {
    TextBuilder out(runtime_);
    print_value(runtime_, out, left);
    print_value(runtime_, out, right);
    return out.value();
  }
  return node.op < Operator::kConcat ? calculate(runtime_, node.op, left, right)
                                     : Value::boolean(holds(runtime_, node.op, left, right));
}

Value Interpreter::value_of(const Conditional& node, Position) {
  if (is_true(evaluate(*node.condition))) {
    return evaluate(*node.then);
  }
  return evaluate_or(node.otherwise,
                     Value::undefined("an inline if is false and has no else part"));
}

Value Interpreter::value_of(const Attribute& node, Position at) {
  const Value object = evaluate(*node.object);
  runtime_.at(at);
  return attribute_of(runtime_, object, node.name);
}

Value Interpreter::value_of(const Item& node, Position at) {
  const Value object = evaluate(*node.object);
  const Value key = evaluate(*node.key);
  runtime_.at(at);
  return item_of(runtime_, object, key);
}

Value Interpreter::value_of(const Slice& node, Position at) {
  const Value object = evaluate(*node.object);
  const Value start = evaluate_or(node.start, {});
  const Value stop = evaluate_or(node.stop, {});
  const Value step = evaluate_or(node.step, {});
  runtime_.at(at);
  return slice_of(runtime_, object, start, stop, step);
}

Value Interpreter::value_of(const FunctionCall& node, Position at) {
  const Value callee = evaluate(*node.callee);
  const Arguments arguments = evaluate_arguments(node.arguments);
  runtime_.at(at);
  return call(callee, arguments);
}

Value Interpreter::value_of(const Filter& node, Position at) {
  const Value operand = evaluate(*node.operand);
  const Arguments arguments = evaluate_arguments(node.arguments);
  runtime_.at(at);
  runtime_.require(node.builtin != nullptr,
                   "the filter '{}' is not supported by Nibble's templates",
                   core::printable(node.name));
  return invoke(runtime_, *node.builtin, operand, arguments);
}

Value Interpreter::value_of(const Test& node, Position at) {
  const Value operand = evaluate(*node.operand);
  const Arguments arguments = evaluate_arguments(node.arguments);
  runtime_.at(at);
  runtime_.require(node.builtin != nullptr, "the test '{}' is not supported by Nibble's templates",
                   core::printable(node.name));
  return invoke(runtime_, *node.builtin, operand, arguments);
}

}  // namespace nibble::jinja
