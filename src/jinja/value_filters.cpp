#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/json.h"
#include "jinja/callable.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/spell.h"
#include "jinja/subscript.h"
#include "jinja/texts.h"

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
  Spelling style;
  style.json = true;
  style.ensure_ascii = call.flag(0, false);
  style.sort_keys = call.flag(3, false);
  const bool indents = call.find(1) != nullptr && !call.at(1).is_none();
  style.indent = indents ? std::max<Int>(call.integer(1, 0), 0) : -1;
  style.item_separator = indents ? "," : ", ";
  if (call.find(2) != nullptr && !call.at(2).is_none()) {
    const Items separators = items_of(call.runtime(), call.at(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      call.fail("separators must be two strings");
    }
    style.item_separator = separators[0].bytes();
    style.key_separator = separators[1].bytes();
  }
  return spell(call.runtime(), call.self(), style);
}

// `safe` too: nothing is escaped here, so the mark would change nothing.
Value to_string(Call& call) {
  return to_text(call.runtime(), call.self());
}

Value length(Call& call) {
  const auto count = length_of(call.runtime(), call.self());
  if (!count.has_value()) {
    call.fail("a {} has no length", call.self().type_name());
  }
  return Value::integer(*count);
}

// The number at the ends of which is nothing but white space.
template <typename Number>
std::optional<Number> read_number(std::string_view text) {
  text = strip_space(text);
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

// Numbers without their fraction, also those that a text spells; the default for all else.
Value to_integer(Call& call) {
  constexpr double kLimit = 9e18;
  const Value& self = call.self();
  require_defined(call.runtime(), self);
  if (self.is_integral()) {
    return Value::integer(self.integral());
  }
  if (self.is_string()) {
    if (const auto integer = read_number<std::int64_t>(self.bytes())) {
      return Value::integer(*integer);
    }
  }
  const double real = self.is_string()        ? read_number<double>(self.bytes()).value_or(NAN)
                      : self.is(Kind::kFloat) ? self.number()
                                              : NAN;
  return Value::integer(std::fabs(real) < kLimit ? static_cast<Int>(real) : call.integer(0, 0));
}

constexpr std::array<Builtin, 8> kValueFilters = {{
    {"count", length, 0, {}},
    {"d", fallback, 0, {"default_value", "boolean"}},
    {"default", fallback, 0, {"default_value", "boolean"}},
    {"int", to_integer, 0, {"default"}},
    {"length", length, 0, {}},
    {"safe", to_string, 0, {}},
    {"string", to_string, 0, {}},
    {"tojson", to_json, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
}};

}  // namespace

std::span<const Builtin> value_filters() {
  return kValueFilters;
}

}  // namespace nibble::jinja
