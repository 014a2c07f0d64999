#pragma once

#include "jinja/runtime.h"
#include "jinja/value.h"

// Truth, equality and order, as Python defines them.
namespace nibble::jinja {

/// bool(value).
bool is_true(const Value& value);

/// a == b. Values of unlike types are unequal, never an error.
bool equals(Runtime& runtime, const Value& a, const Value& b);

/// a < b, for two numbers, texts, lists or tuples; refuses anything else.
bool is_less(Runtime& runtime, const Value& a, const Value& b);

/// needle in haystack.
bool contains(Runtime& runtime, const Value& haystack, const Value& needle);

}  // namespace nibble::jinja
