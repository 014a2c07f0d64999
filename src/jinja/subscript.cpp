#include "jinja/subscript.h"

#include <algorithm>
#include <array>
#include <optional>

#include "characters/utf8.h"
#include "jinja/callable.h"
#include "jinja/iterate.h"
#include "jinja/loop.h"
#include "jinja/make.h"
#include "jinja/texts.h"

namespace nibble::jinja {
namespace {

constexpr std::array<std::string_view, 12> kChangingMethods = {
    "append", "clear",      "extend", "insert", "pop", "popitem",
    "remove", "setdefault", "sort",   "update", "add", "discard"};

Value missing_attribute(const Value& object, std::string_view name) {
  const bool changes =
      std::find(kChangingMethods.begin(), kChangingMethods.end(), name) != kChangingMethods.end();
  const bool lacks_method = object.is_string() || object.is(Kind::kLoop);
  return Value::undefined(fmt::format("a {} has no attribute '{}'{}", object.type_name(),
                                      core::printable(name),
                                      changes        ? " (templates cannot change values)"
                                      : lacks_method ? " that Nibble's templates support"
                                                     : ""));
}

Value neighbour(const Value* item, std::string_view which) {
  return item != nullptr ? *item : Value::undefined(fmt::format("there is no {} item", which));
}

std::optional<Value> loop_attribute(Loop& loop, std::string_view name) {
  if (name == "index") {
    return Value::integer(loop.index0() + 1);
  }
  if (name == "index0") {
    return Value::integer(loop.index0());
  }
  if (name == "first") {
    return Value::boolean(loop.index0() == 0);
  }
  if (name == "last") {
    return Value::boolean(loop.is_last());
  }
  if (name == "length") {
    return Value::integer(loop.length());
  }
  if (name == "revindex" || name == "revindex0") {
    return Value::integer(loop.length() - loop.index0() - (name == "revindex0" ? 1 : 0));
  }
  if (name == "depth" || name == "depth0") {  // loops of macros start anew, and none recurses
    return Value::integer(name == "depth" ? 1 : 0);
  }
  if (name == "previtem") {
    return neighbour(loop.previous(), "previous");
  }
  if (name == "nextitem") {
    return neighbour(loop.next(), "next");
  }
  return std::nullopt;
}

// What Python's getattr finds.
std::optional<Value> own_attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kLoop)) {
    return loop_attribute(object.loop(), name);
  }
  if (object.is(Kind::kNamespace)) {
    const Value* value = object.space().attributes.find(name);
    return value != nullptr ? std::optional(*value) : std::nullopt;
  }
  if (const Builtin* method = find_method(object, name)) {
    return Value(
        Value::Storage(std::make_shared<const Function>(Function{method, object, nullptr, 0})));
  }
  return std::nullopt;
}

std::optional<Value> item_at(Runtime& runtime, const Value& object, Int index) {
  const std::optional<std::int64_t> length = length_of(runtime, object);
  const Int position = index < 0 ? index + length.value_or(0) : index;
  if (position < 0 || position >= length.value_or(0)) {
    return std::nullopt;
  }
  const auto at = static_cast<std::int64_t>(position);
  if (object.is_string()) {
    const std::string_view rest =
        std::string_view(object.bytes()).substr(characters::byte_of_code_point(object.bytes(), at));
    return make_text(runtime, rest.substr(0, characters::utf8_bytes(rest[0])));
  }
  const bool indexed = object.is(Kind::kSequence) && !object.is(Sequence::Form::kView);
  return indexed ? std::optional(object.items()[static_cast<std::size_t>(at)]) : std::nullopt;
}

struct Bounds {
  Int start = 0;
  Int stop = 0;
  Int step = 1;
};

Int slice_number(const Runtime& runtime, const Value& value, Int fallback) {
  if (value.is_none()) {
    return fallback;
  }
  require_defined(runtime, value);
  runtime.require(value.is_integral(), "a slice needs integers, got a {}", value.type_name());
  return std::clamp<Int>(value.integral(), INT64_MIN, INT64_MAX);
}

// Python's slice.indices(length).
Bounds slice_bounds(const Runtime& runtime, std::int64_t length, const Value& start,
                    const Value& stop, const Value& step) {
  const Int stride = slice_number(runtime, step, 1);
  runtime.require(stride != 0, "the step of a slice cannot be zero");
  const bool backward = stride < 0;
  const Int low = backward ? -1 : 0;
  const Int high = backward ? length - 1 : length;
  const auto place = [&](const Value& bound, Int fallback) {
    if (bound.is_none()) {
      return fallback;
    }
    const Int number = slice_number(runtime, bound, 0);
    return std::clamp<Int>(number < 0 ? number + length : number, low, high);
  };
  return {place(start, backward ? high : low), place(stop, backward ? low : high), stride};
}

// `take` is called with each index of the slice.
template <typename Take>
void walk(const Bounds& bounds, Take take) {
  for (Int i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;
       i += bounds.step) {
    take(static_cast<std::size_t>(i));
  }
}

Value slice_text(Runtime& runtime, std::string_view text, const Bounds& bounds) {
  if (bounds.step == 1) {
    const auto from = static_cast<std::int64_t>(bounds.start);
    const auto count = static_cast<std::int64_t>(std::max(bounds.stop - bounds.start, Int{0}));
    text.remove_prefix(characters::byte_of_code_point(text, from));
    return make_text(runtime, text.substr(0, characters::byte_of_code_point(text, count)));
  }
  runtime.step(static_cast<std::int64_t>(text.size()));
  const auto characters = split_code_points(text);
  TextBuilder out(runtime);
  walk(bounds, [&](std::size_t i) { out.add(characters[i]); });
  return out.value();
}

}  // namespace

void require_defined(const Runtime& runtime, const Value& value) {
  if (value.is_undefined()) [[unlikely]] {
    runtime.fail("{}", value.why());
  }
}

Value attribute_of(Runtime& runtime, const Value& object, std::string_view name) {
  require_defined(runtime, object);
  if (auto value = own_attribute(object, name)) {
    return *std::move(value);
  }
  const Value* item = object.is(Kind::kDict) ? object.dict().find(name) : nullptr;
  return item != nullptr ? *item : missing_attribute(object, name);
}

Value item_of(Runtime& runtime, const Value& object, const Value& key) {
  require_defined(runtime, object);
  if (key.is_integral()) {
    auto value = item_at(runtime, object, key.integral());
    return value.has_value() ? *std::move(value)
                             : Value::undefined(fmt::format("a {} has no element {}",
                                                            object.type_name(), key.integral()));
  }
  if (!key.is_string()) {
    return Value::undefined(
        fmt::format("a {} has no element of type {}", object.type_name(), key.type_name()));
  }
  const Value* item = object.is(Kind::kDict) ? object.dict().find(key.bytes()) : nullptr;
  if (item != nullptr) {
    return *item;
  }
  auto value = own_attribute(object, key.bytes());
  return value.has_value() ? *std::move(value) : missing_attribute(object, key.bytes());
}

Value slice_of(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
               const Value& step) {
  require_defined(runtime, object);
  const bool listed = object.is(Sequence::Form::kList) || object.is(Sequence::Form::kTuple);
  runtime.require(object.is_string() || listed, "a {} cannot be sliced", object.type_name());
  const Bounds bounds = slice_bounds(runtime, *length_of(runtime, object), start, stop, step);
  if (object.is_string()) {
    return slice_text(runtime, object.bytes(), bounds);
  }
  Items items;
  walk(bounds, [&](std::size_t i) {
    runtime.step();
    items.push_back(object.items()[i]);
  });
  return make_sequence(runtime, std::move(items), object.sequence().form);
}

Value follow_path(Runtime& runtime, const Value& object, std::string_view path) {
  Value value = object;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    const bool number = !part.empty() && part.size() < 19 &&
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    value =
        item_of(runtime, value,
                number ? Value::integer(std::stoll(std::string(part))) : make_text(runtime, part));
    if (dot == std::string_view::npos) {
      return value;
    }
    path.remove_prefix(dot + 1);
  }
}

}  // namespace nibble::jinja
