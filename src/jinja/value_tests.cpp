#include <array>

#include "jinja/arithmetic.h"
#include "jinja/callable.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/methods.h"
#include "jinja/print.h"

// What can stand after `is`.
namespace nibble::jinja {
namespace {

template <bool (*kTest)(const Value&)>
Value test_value(Call& call) {
  return Value::boolean(kTest(call.self()));
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_bool(const Value& value) {
  return value.is(Kind::kBool);
}
bool is_true_itself(const Value& value) {
  return value.is(Kind::kBool) && value.truth();
}
bool is_false_itself(const Value& value) {
  return value.is(Kind::kBool) && !value.truth();
}
bool is_integer(const Value& value) {
  return value.is(Kind::kInt);
}
bool is_float(const Value& value) {
  return value.is(Kind::kFloat);
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_text(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is(Kind::kDict);
}
bool is_callable(const Value& value) {
  return value.is(Kind::kFunction);
}
bool is_escaped(const Value& value) {
  return value.is_markup();
}

bool is_sequence(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      return true;
    default:
      return false;
  }
}

Value modulo(const Call& call, const Value& divisor) {
  return calculate(call.runtime(), Operator::kModulo, call.self(), divisor);
}

Value is_odd(Call& call) {
  return Value::boolean(equals(call.runtime(), modulo(call, Value::integer(2)), Value::integer(1)));
}

Value is_even(Call& call) {
  return Value::boolean(equals(call.runtime(), modulo(call, Value::integer(2)), Value::integer(0)));
}

Value is_divisible(Call& call) {
  return Value::boolean(equals(call.runtime(), modulo(call, call.at(0)), Value::integer(0)));
}

Value is_equal(Call& call) {
  return Value::boolean(equals(call.runtime(), call.self(), call.at(0)));
}

Value is_unequal(Call& call) {
  return Value::boolean(!equals(call.runtime(), call.self(), call.at(0)));
}

Value is_lesser(Call& call) {
  return Value::boolean(is_less(call.runtime(), call.self(), call.at(0)));
}

Value is_greater(Call& call) {
  return Value::boolean(is_less(call.runtime(), call.at(0), call.self()));
}

Value is_at_most(Call& call) {
  return Value::boolean(is_less(call.runtime(), call.self(), call.at(0)) ||
                        equals(call.runtime(), call.self(), call.at(0)));
}

Value is_at_least(Call& call) {
  return Value::boolean(is_less(call.runtime(), call.at(0), call.self()) ||
                        equals(call.runtime(), call.self(), call.at(0)));
}

Value is_in(Call& call) {
  return Value::boolean(contains(call.runtime(), call.at(0), call.self()));
}

Value is_same(Call& call) {
  return Value::boolean(call.self().same_object(call.at(0)));
}

// The methods islower and isupper of str(value).
Value has_case(Call& call, std::string_view method) {
  const Value text = to_text(call.runtime(), call.self());
  return invoke(call.runtime(), *find_method(text, method), text, {});
}

Value is_lower_case(Call& call) {
  return has_case(call, "islower");
}
Value is_upper_case(Call& call) {
  return has_case(call, "isupper");
}

Value is_filter_name(Call& call) {
  return Value::boolean(call.self().is_string() && find_filter(call.self().bytes()) != nullptr);
}

Value is_test_name(Call& call) {
  return Value::boolean(call.self().is_string() && find_test(call.self().bytes()) != nullptr);
}

constexpr std::array<Builtin, 39> kTests = {{
    {"!=", is_unequal, 1, {"_other"}},
    {"<", is_lesser, 1, {"_other"}},
    {"<=", is_at_most, 1, {"_other"}},
    {"==", is_equal, 1, {"_other"}},
    {">", is_greater, 1, {"_other"}},
    {">=", is_at_least, 1, {"_other"}},
    {"boolean", test_value<is_bool>, 0, {}},
    {"callable", test_value<is_callable>, 0, {}},
    {"defined", test_value<is_defined>, 0, {}},
    {"divisibleby", is_divisible, 1, {"num"}},
    {"eq", is_equal, 1, {"_other"}},
    {"equalto", is_equal, 1, {"_other"}},
    {"escaped", test_value<is_escaped>, 0, {}},
    {"even", is_even, 0, {}},
    {"false", test_value<is_false_itself>, 0, {}},
    {"filter", is_filter_name, 0, {}},
    {"float", test_value<is_float>, 0, {}},
    {"ge", is_at_least, 1, {"_other"}},
    {"greaterthan", is_greater, 1, {"_other"}},
    {"gt", is_greater, 1, {"_other"}},
    {"in", is_in, 1, {"seq"}},
    {"integer", test_value<is_integer>, 0, {}},
    {"iterable", test_value<is_iterable>, 0, {}},
    {"le", is_at_most, 1, {"_other"}},
    {"lessthan", is_lesser, 1, {"_other"}},
    {"lower", is_lower_case, 0, {}},
    {"lt", is_lesser, 1, {"_other"}},
    {"mapping", test_value<is_mapping>, 0, {}},
    {"ne", is_unequal, 1, {"_other"}},
    {"none", test_value<is_none>, 0, {}},
    {"number", test_value<is_number>, 0, {}},
    {"odd", is_odd, 0, {}},
    {"sameas", is_same, 1, {"other"}},
    {"sequence", test_value<is_sequence>, 0, {}},
    {"string", test_value<is_text>, 0, {}},
    {"test", is_test_name, 0, {}},
    {"true", test_value<is_true_itself>, 0, {}},
    {"undefined", test_value<is_undefined>, 0, {}},
    {"upper", is_upper_case, 0, {}},
}};

}  // namespace

const Builtin* find_test(std::string_view name) {
  return find_builtin(kTests, name);
}

}  // namespace nibble::jinja
