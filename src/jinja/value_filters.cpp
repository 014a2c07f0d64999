#include <array>

#include "jinja/compare.h"
#include "jinja/filters.h"
#include "jinja/iterate.h"
#include "jinja/json_value.h"
#include "jinja/print.h"
#include "jinja/subscript.h"

namespace nibble::jinja {
namespace {

Value fallback(Call& call) {
  const bool also_for_false = call.flag(1, false);
  if (call.self().is_undefined() || (also_for_false && !is_true(call.self()))) {
    return call.find(0) != nullptr ? call.at(0) : Value::text("");
  }
  return call.self();
}

Value to_json(Call& call) {
  JsonStyle style;
  style.ensure_ascii = call.flag(0, false);
  style.indent = call.find(1);
  style.sort_keys = call.flag(3, false);
  Items separators;
  if (call.find(2) != nullptr && !call.at(2).is_none()) {
    separators = items_of(call.runtime(), call.at(2));
    if (separators.size() != 2) {
      call.fail("separators must be two strings");
    }
    style.item_separator = &separators[0];
    style.key_separator = &separators[1];
  }
  return dump_json(call.runtime(), call.self(), style);
}

Value to_string(Call& call) {
  return call.self().is_string() ? call.self() : to_text(call.runtime(), call.self());
}

Value length(Call& call) {
  const auto count = length_of(call.runtime(), call.self());
  if (!count.has_value()) {
    call.fail("a {} has no length", call.self().type_name());
  }
  return Value::integer(*count);
}

Value attribute(Call& call) {
  require_defined(call.runtime(), call.self());
  const Value found = attribute_of(call.runtime(), call.self(), call.text(0));
  const bool is_item = call.self().is(Kind::kDict) && !found.is(Kind::kFunction);
  return is_item ? Value::undefined("a dict has items, no attributes of that name") : found;
}

constexpr std::array<Builtin, 7> kValueFilters = {{
    {"attr", attribute, 1, {"name"}},
    {"count", length, 0, {}},
    {"d", fallback, 0, {"default_value", "boolean"}},
    {"default", fallback, 0, {"default_value", "boolean"}},
    {"length", length, 0, {}},
    {"string", to_string, 0, {}},
    {"tojson", to_json, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
}};

}  // namespace

std::span<const Builtin> value_filters() {
  return kValueFilters;
}

}  // namespace nibble::jinja
