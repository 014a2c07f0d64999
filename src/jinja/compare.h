#pragma once

#include "jinja/arithmetic.h"

// Truth, equality and order, as Python defines them.
namespace nibble::jinja {

/// bool(value).
bool is_true(const Value& value);

/// a == b. Values of unlike types are unequal, never an error.
bool equals(Runtime& runtime, const Value& a, const Value& b);

/// a < b, for two numbers or texts; refuses anything else.
bool is_less(Runtime& runtime, const Value& a, const Value& b);

/// left OP right, for an operator that compares.
bool holds(Runtime& runtime, Operator op, const Value& left, const Value& right);

}  // namespace nibble::jinja
