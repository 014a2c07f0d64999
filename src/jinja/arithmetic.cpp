#include "jinja/arithmetic.h"

#include <array>
#include <string_view>

#include "jinja/make.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

std::string_view symbol(Operator op) {
  constexpr std::array<std::string_view, 6> kSymbols = {"+", "-", "*", "/", "//", "%"};
  return kSymbols[static_cast<std::size_t>(op)];
}

Int floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_result(const Runtime& runtime, Operator op, Int a, Int b) {
  Int result = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kFloorDivide:
      // -1 is the one divisor whose quotient can overflow.
      overflow = b == -1 && __builtin_sub_overflow(Int{0}, a, &result);
      result = b == -1 ? result : floor_divide(a, b);
      break;
    default:
      result = b == -1 ? 0 : a - floor_divide(a, b) * b;
  }
  runtime.require(!overflow, "the integer result of {} is too large", symbol(op));
  return Value::integer(result);
}

Value number_result(const Runtime& runtime, Operator op, const Value& a, const Value& b) {
  const bool whole = op == Operator::kFloorDivide || op == Operator::kModulo;
  runtime.require(!(whole || op == Operator::kDivide) || b.number() != 0.0, "division by zero");
  if (a.is_integral() && b.is_integral() && op != Operator::kDivide) {
    return integer_result(runtime, op, a.integral(), b.integral());
  }
  switch (op) {
    case Operator::kAdd:
      return Value::real(a.number() + b.number());
    case Operator::kSubtract:
      return Value::real(a.number() - b.number());
    case Operator::kMultiply:
      return Value::real(a.number() * b.number());
    case Operator::kDivide:
      return Value::real(a.number() / b.number());
    default:
      runtime.fail("{} of fractions is not supported by Nibble's templates", symbol(op));
  }
}

Value join_sequences(Runtime& runtime, const Value& a, const Value& b) {
  runtime.grow((a.items().size() + b.items().size()) * sizeof(Value));
  Items items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return make_sequence(runtime, std::move(items), a.sequence().form);
}

}  // namespace

Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  require_defined(runtime, a);
  require_defined(runtime, b);
  if (a.is_number() && b.is_number()) {
    return number_result(runtime, op, a, b);
  }
  runtime.require(op != Operator::kModulo || !a.is_string(),
                  "formatting with % is not supported by Nibble's templates");
  TextBuilder out(runtime);
  if (op == Operator::kAdd && a.is_string() && b.is_string()) {
    return out.add(a.bytes()).add(b.bytes()).value();
  }
  if (op == Operator::kMultiply && a.is_string() && b.is_integral()) {
    return out.repeat(a.bytes(), b.integral()).value();
  }
  if (op == Operator::kMultiply && a.is_integral() && b.is_string()) {
    return out.repeat(b.bytes(), a.integral()).value();
  }
  const auto both_are = [&](Sequence::Form form) { return a.is(form) && b.is(form); };
  if (op == Operator::kAdd &&
      (both_are(Sequence::Form::kList) || both_are(Sequence::Form::kTuple))) {
    return join_sequences(runtime, a, b);
  }
  runtime.fail("cannot compute {} {} {}", a.type_name(), symbol(op), b.type_name());
}

}  // namespace nibble::jinja
