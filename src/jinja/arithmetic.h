#pragma once

#include "jinja/runtime.h"
#include "jinja/value.h"

namespace nibble::jinja {

enum class Operator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo };

/// a OP b by Python's rules: numbers (// and % of integers), "a" + "b", "a" * 3 and [1] + [2].
/// Refuses everything else, division by zero and integers beyond 128 bits.
Value calculate(Runtime& runtime, Operator op, const Value& a, const Value& b);

}  // namespace nibble::jinja
