#pragma once

#include "jinja/runtime.h"
#include "jinja/value.h"

// Truth, equality and order, as Python defines them.
namespace nibble::jinja {

/// bool(value).
bool is_true(const Value& value);

/// a == b. Values of unlike types are unequal, never an error.
bool equals(Runtime& runtime, const Value& a, const Value& b);

/// a < b, for two numbers or texts; refuses anything else.
bool is_less(Runtime& runtime, const Value& a, const Value& b);

enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

/// left COMPARISON right.
bool holds(Runtime& runtime, Comparison comparison, const Value& left, const Value& right);

}  // namespace nibble::jinja
