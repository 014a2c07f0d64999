#pragma once

#include "jinja/runtime.h"
#include "jinja/value.h"

namespace nibble::jinja {

enum class Operator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

/// a OP b by Python's rules: numbers, and where Python has them text and lists ("a" + "b",
/// [0] * 3, "%d" % 3). Refuses everything else, division by zero and integers beyond 128 bits.
Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b);

/// -value
Value negate(Runtime& runtime, const Value& value);

/// `a` + `b` for two texts; where one is markup the other is escaped.
Value join_texts(Runtime& runtime, const Value& a, const Value& b);

}  // namespace nibble::jinja
