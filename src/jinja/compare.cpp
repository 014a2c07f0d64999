#include "jinja/compare.h"

#include <algorithm>

#include "jinja/callable.h"
#include "jinja/iterate.h"
#include "jinja/subscript.h"
#include "jinja/texts.h"

namespace nibble::jinja {
namespace {

bool equal_sequences(Runtime& runtime, const Sequence& a, const Sequence& b) {
  return &a == &b ||
         (a.form == b.form && a.form != Sequence::Form::kGenerator &&
          std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                     [&](const Value& x, const Value& y) { return equals(runtime, x, y); }));
}

bool equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  return &a == &b ||
         (a.entries().size() == b.entries().size() &&
          std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
            const Value* other = b.find(entry.key.bytes());
            return other != nullptr && equals(runtime, entry.value, *other);
          }));
}

bool contains(Runtime& runtime, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    runtime.require(needle.is_string(), "cannot look for a {} in a string", needle.type_name());
    runtime.scan(haystack.bytes().size() + needle.bytes().size());
    return find_bytes(haystack.bytes(), needle.bytes()) != std::string_view::npos;
  }
  if (haystack.is(Kind::kDict)) {
    return needle.is_string() && haystack.dict().find(needle.bytes()) != nullptr;
  }
  const Items items = items_of(runtime, haystack);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return equals(runtime, item, needle); });
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.truth();
    case Kind::kInt:
      return value.integral() != 0;
    case Kind::kFloat:
      return value.number() != 0.0;
    case Kind::kString:
      return !value.bytes().empty();
    case Kind::kSequence:
      return value.is(Sequence::Form::kGenerator) || !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries().empty();
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kLoop:
      return true;
  }
  return false;
}

bool equals(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_integral() && b.is_integral()) {
    return a.integral() == b.integral();
  }
  if (a.is_number() && b.is_number()) {
    return a.number() == b.number();
  }
  if (a.kind() != b.kind()) {
    return false;
  }
  switch (a.kind()) {
    case Kind::kString:
      runtime.scan(std::min(a.bytes().size(), b.bytes().size()));
      return a.bytes() == b.bytes();
    case Kind::kSequence:
      return equal_sequences(runtime, a.sequence(), b.sequence());
    case Kind::kDict:
      return equal_dicts(runtime, a.dict(), b.dict());
    case Kind::kNamespace:
      return &a.space() == &b.space();
    case Kind::kFunction:
      return &a.function() == &b.function();
    case Kind::kLoop:
      return &a.loop() == &b.loop();
    default:
      return true;  // two undefined values, or None
  }
}

bool is_less(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_integral() && b.is_integral()) {
    return a.integral() < b.integral();
  }
  if (a.is_number() && b.is_number()) {
    return a.number() < b.number();
  }
  require_defined(runtime, a);
  require_defined(runtime, b);
  runtime.require(a.is_string() && b.is_string(), "cannot order {} and {}", a.type_name(),
                  b.type_name());
  runtime.scan(std::min(a.bytes().size(), b.bytes().size()));
  return a.bytes() < b.bytes();  // UTF-8 sorts as code points do
}

bool holds(Runtime& runtime, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return equals(runtime, left, right);
    case Operator::kNotEqual:
      return !equals(runtime, left, right);
    case Operator::kLess:
      return is_less(runtime, left, right);
    case Operator::kLessEqual:
      return is_less(runtime, left, right) || equals(runtime, left, right);
    case Operator::kGreater:
      return is_less(runtime, right, left);
    case Operator::kGreaterEqual:
      return is_less(runtime, right, left) || equals(runtime, left, right);
    case Operator::kIn:
      return contains(runtime, right, left);
    case Operator::kNotIn:
      return !contains(runtime, right, left);
    default:
      return false;
  }
}

}  // namespace nibble::jinja
