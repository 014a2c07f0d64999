#include "jinja/compare.h"

#include <algorithm>

#include "jinja/iterate.h"
#include "jinja/subscript.h"
#include "jinja/white_space.h"

namespace nibble::jinja {
namespace {

bool equal_items(Runtime& runtime, const Items& a, const Items& b) {
  return &a == &b ||
         std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Value& x, const Value& y) { return equals(runtime, x, y); });
}

bool equal_dicts(Runtime& runtime, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) {
    return false;
  }
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.key);
    return other != nullptr && equals(runtime, entry.value, *other);
  });
}

bool equal_ranges(const Range& a, const Range& b) {
  return a.size == b.size &&
         (a.size == 0 || (a.start == b.start && (a.size == 1 || a.step == b.step)));
}

bool is_less_items(Runtime& runtime, const Items& a, const Items& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!equals(runtime, a[i], b[i])) {
      return is_less(runtime, a[i], b[i]);
    }
  }
  return a.size() < b.size();
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
    case Kind::kList:
    case Kind::kTuple:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict()->entries().empty();
    case Kind::kDictView:
      return !value.view().dict->entries().empty();
    case Kind::kRange:
      return value.range().size > 0;
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kFunction:
    case Kind::kLoop:
      return true;
  }
  return false;
}

bool equals(Runtime& runtime, const Value& a, const Value& b) {
  runtime.step();
  if (a.is_number() && b.is_number()) {
    return equal_numbers(a, b);
  }
  if (a.kind() != b.kind()) {
    return false;
  }
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      runtime.scan(std::min(a.bytes().size(), b.bytes().size()));
      return a.bytes() == b.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return equal_items(runtime, a.items(), b.items());
    case Kind::kDict:
      return a.dict() == b.dict() || equal_dicts(runtime, *a.dict(), *b.dict());
    case Kind::kRange:
      return equal_ranges(a.range(), b.range());
    default:
      return a.same_object(b);
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
  if (a.is_string() && b.is_string()) {
    runtime.scan(std::min(a.bytes().size(), b.bytes().size()));
    return a.bytes() < b.bytes();  // UTF-8 sorts as code points do
  }
  require_defined(runtime, a);
  require_defined(runtime, b);
  const bool sequences = a.is(Kind::kList) || a.is(Kind::kTuple);
  runtime.require(sequences && a.kind() == b.kind(), "cannot order {} and {}", a.type_name(),
                  b.type_name());
  return is_less_items(runtime, a.items(), b.items());
}

bool contains(Runtime& runtime, const Value& haystack, const Value& needle) {
  if (haystack.is_string()) {
    runtime.require(needle.is_string(), "cannot look for a {} in a string", needle.type_name());
    runtime.scan(haystack.bytes().size() + needle.bytes().size());
    return find_bytes(haystack.bytes(), needle.bytes()) != std::string_view::npos;
  }
  if (haystack.is(Kind::kDict)) {
    runtime.require(Dict::can_be_key(needle) || needle.is(Kind::kTuple),
                    "a {} cannot be a key of a dict", needle.type_name());
    return Dict::can_be_key(needle) && haystack.dict()->find(needle) != nullptr;
  }
  if (haystack.is(Kind::kList) || haystack.is(Kind::kTuple)) {
    return std::any_of(haystack.items().begin(), haystack.items().end(),
                       [&](const Value& item) { return equals(runtime, item, needle); });
  }
  const Items items = items_of(runtime, haystack);
  return std::any_of(items.begin(), items.end(),
                     [&](const Value& item) { return equals(runtime, item, needle); });
}

}  // namespace nibble::jinja
