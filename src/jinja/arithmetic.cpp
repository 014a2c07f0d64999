#include "jinja/arithmetic.h"

#include <cmath>
#include <string_view>

#include "jinja/format.h"
#include "jinja/make.h"
#include "jinja/print.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

std::string_view symbol(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "**";
  }
  return "?";
}

Int integer_power(Runtime& runtime, Int base, Int exponent) {
  Int result = 1;
  bool overflow = false;
  while (exponent > 0) {
    if ((exponent & 1) != 0) {
      overflow |= __builtin_mul_overflow(result, base, &result);
    }
    exponent >>= 1;
    if (exponent > 0) {
      overflow |= __builtin_mul_overflow(base, base, &base);
    }
    runtime.require(!overflow, "the integer result of ** is too large");
  }
  return result;
}

Int floor_divide(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value integer_result(Runtime& runtime, Operator op, Int a, Int b) {
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
    case Operator::kModulo:
      if (b == -1) {  // the one divisor whose quotient can overflow
        overflow = op == Operator::kFloorDivide && __builtin_sub_overflow(Int{0}, a, &result);
      } else {
        const Int quotient = floor_divide(a, b);
        result = op == Operator::kFloorDivide ? quotient : a - quotient * b;
      }
      break;
    case Operator::kPower:
      result = integer_power(runtime, a, b);
      break;
    case Operator::kDivide:
      break;
  }
  runtime.require(!overflow, "the integer result of {} is too large", symbol(op));
  return Value::integer(result);
}

double float_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0.0) {
    return std::copysign(0.0, b);
  }
  return (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}

// Python's float_divmod: rounding makes this differ from floor(a / b) now and then.
double float_floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0 && (b < 0.0) != (rest < 0.0)) {
    quotient -= 1.0;
  }
  if (quotient == 0.0) {
    return std::copysign(0.0, a / b);
  }
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1.0 : floor;
}

double float_result(Runtime& runtime, Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return a + b;
    case Operator::kSubtract:
      return a - b;
    case Operator::kMultiply:
      return a * b;
    case Operator::kDivide:
      return a / b;
    case Operator::kFloorDivide:
      return float_floor_divide(a, b);
    case Operator::kModulo:
      return float_modulo(a, b);
    case Operator::kPower:
      break;
  }
  const double result = std::pow(a, b);
  runtime.require(!std::isnan(result) || std::isnan(a) || std::isnan(b),
                  "the result of ** is not a real number");
  runtime.require(!std::isinf(result) || std::isinf(a) || std::isinf(b),
                  "the result of ** is too large");
  return result;
}

Value number_result(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  const bool inverts = op == Operator::kPower && b.number() < 0.0;
  runtime.require(!(divides && b.number() == 0.0) && !(inverts && a.number() == 0.0),
                  "division by zero");
  const bool stays_integral = op != Operator::kDivide && !inverts;
  if (a.is_integral() && b.is_integral() && stays_integral) {
    return integer_result(runtime, op, a.integral(), b.integral());
  }
  return Value::real(float_result(runtime, op, a.number(), b.number()));
}

bool is_sequence(const Value& value) {
  return value.is(Kind::kList) || value.is(Kind::kTuple);
}

Value make_like(Runtime& runtime, const Value& model, Items items) {
  return model.is(Kind::kList) ? make_list(runtime, std::move(items))
                               : make_tuple(runtime, std::move(items));
}

Value join_sequences(Runtime& runtime, const Value& a, const Value& b) {
  runtime.grow((a.items().size() + b.items().size()) * sizeof(Value));
  Items items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return make_like(runtime, a, std::move(items));
}

Value repeat(Runtime& runtime, const Value& value, Int count) {
  if (value.is_string()) {
    TextBuilder out(runtime);
    out.repeat(value.bytes(), count);
    return out.value(value.is_markup());
  }
  Items items;
  for (Int i = 0; i < count && !value.items().empty(); ++i) {
    runtime.grow(value.items().size() * sizeof(Value));
    items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return make_like(runtime, value, std::move(items));
}

}  // namespace

Value join_texts(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  TextBuilder out(runtime);
  out.add(markup ? escape_markup(runtime, a).bytes() : a.bytes());
  out.add(markup ? escape_markup(runtime, b).bytes() : b.bytes());
  return out.value(markup);
}

Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  require_defined(runtime, a);
  if (op == Operator::kModulo && a.is_string()) {
    return format_percent(runtime, a, b);
  }
  require_defined(runtime, b);
  if (a.is_number() && b.is_number()) {
    return number_result(runtime, op, a, b);
  }
  if (op == Operator::kAdd && a.is_string() && b.is_string()) {
    return join_texts(runtime, a, b);
  }
  if (op == Operator::kAdd && is_sequence(a) && a.kind() == b.kind()) {
    return join_sequences(runtime, a, b);
  }
  const auto repeatable = [](const Value& value) {
    return value.is_string() || is_sequence(value);
  };
  if (op == Operator::kMultiply && repeatable(a) && b.is_integral()) {
    return repeat(runtime, a, b.integral());
  }
  if (op == Operator::kMultiply && a.is_integral() && repeatable(b)) {
    return repeat(runtime, b, a.integral());
  }
  runtime.fail("cannot compute {} {} {}", a.type_name(), symbol(op), b.type_name());
}

Value negate(Runtime& runtime, const Value& value) {
  if (value.is_integral()) {
    return integer_result(runtime, Operator::kSubtract, 0, value.integral());
  }
  require_defined(runtime, value);
  runtime.require(value.is(Kind::kFloat), "cannot negate a {}", value.type_name());
  return Value::real(-value.number());
}

}  // namespace nibble::jinja
