#include <array>

#include "jinja/arithmetic.h"
#include "jinja/callable.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"

// What can stand after `is`.
namespace nibble::jinja {
namespace {

template <bool (*kTest)(const Value&)>
Value test_value(Call& call) {
  return Value::boolean(kTest(call.self()));
}

template <Kind kKind>
bool is_of_kind(const Value& value) {
  return value.is(kKind);
}

template <bool kTruth>
bool is_itself(const Value& value) {
  return value.is(Kind::kBool) && value.truth() == kTruth;
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}

bool is_number(const Value& value) {
  return value.is_number();
}

bool is_sequence(const Value& value) {
  const bool indexed = !value.is(Sequence::Form::kView) && !value.is(Sequence::Form::kGenerator);
  return is_iterable(value) && indexed;
}

bool leaves(const Call& call, const Value& divisor, int rest) {
  const Value modulo = calculate(call.runtime(), Operator::kModulo, call.self(), divisor);
  return equals(call.runtime(), modulo, Value::integer(rest));
}

template <int kRest>
Value leaves_of_two(Call& call) {
  return Value::boolean(leaves(call, Value::integer(2), kRest));
}

Value is_divisible(Call& call) {
  return Value::boolean(leaves(call, call.at(0), 0));
}

template <Operator kOperator>
Value compares(Call& call) {
  return Value::boolean(holds(call.runtime(), kOperator, call.self(), call.at(0)));
}

constexpr std::array<Builtin, 31> kTests = {{
    {"!=", compares<Operator::kNotEqual>, 1, {"_other"}},
    {"<", compares<Operator::kLess>, 1, {"_other"}},
    {"<=", compares<Operator::kLessEqual>, 1, {"_other"}},
    {"==", compares<Operator::kEqual>, 1, {"_other"}},
    {">", compares<Operator::kGreater>, 1, {"_other"}},
    {">=", compares<Operator::kGreaterEqual>, 1, {"_other"}},
    {"boolean", test_value<is_of_kind<Kind::kBool>>, 0, {}},
    {"callable", test_value<is_of_kind<Kind::kFunction>>, 0, {}},
    {"defined", test_value<is_defined>, 0, {}},
    {"divisibleby", is_divisible, 1, {"num"}},
    {"eq", compares<Operator::kEqual>, 1, {"_other"}},
    {"equalto", compares<Operator::kEqual>, 1, {"_other"}},
    {"even", leaves_of_two<0>, 0, {}},
    {"false", test_value<is_itself<false>>, 0, {}},
    {"float", test_value<is_of_kind<Kind::kFloat>>, 0, {}},
    {"ge", compares<Operator::kGreaterEqual>, 1, {"_other"}},
    {"gt", compares<Operator::kGreater>, 1, {"_other"}},
    {"in", compares<Operator::kIn>, 1, {"seq"}},
    {"integer", test_value<is_of_kind<Kind::kInt>>, 0, {}},
    {"iterable", test_value<is_iterable>, 0, {}},
    {"le", compares<Operator::kLessEqual>, 1, {"_other"}},
    {"lt", compares<Operator::kLess>, 1, {"_other"}},
    {"mapping", test_value<is_of_kind<Kind::kDict>>, 0, {}},
    {"ne", compares<Operator::kNotEqual>, 1, {"_other"}},
    {"none", test_value<is_of_kind<Kind::kNone>>, 0, {}},
    {"number", test_value<is_number>, 0, {}},
    {"odd", leaves_of_two<1>, 0, {}},
    {"sequence", test_value<is_sequence>, 0, {}},
    {"string", test_value<is_of_kind<Kind::kString>>, 0, {}},
    {"true", test_value<is_itself<true>>, 0, {}},
    {"undefined", test_value<is_of_kind<Kind::kUndefined>>, 0, {}},
}};

}  // namespace

const Builtin* find_test(std::string_view name) {
  return find_builtin(kTests, name);
}

}  // namespace nibble::jinja
