#pragma once

#include "jinja/runtime.h"
#include "jinja/value.h"

namespace nibble::jinja {

/// What stands between two operands. The first six calculate; those from kEqual compare.
enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kConcat,
  kAnd,
  kOr,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

/// a OP b by Python's rules: numbers (// and % of integers), "a" + "b", "a" * 3 and [1] + [2].
/// Refuses everything else, division by zero and integers beyond 128 bits.
Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b);

}  // namespace nibble::jinja
