#include "jinja/subscript.h"

#include <algorithm>
#include <array>
#include <optional>

#include "characters/utf8.h"
#include "jinja/callable.h"
#include "jinja/iterate.h"
#include "jinja/loop.h"
#include "jinja/make.h"
#include "jinja/white_space.h"

namespace nibble::jinja {
namespace {

constexpr std::array<std::string_view, 12> kChangingMethods = {
    "append", "clear",      "extend", "insert", "pop", "popitem",
    "remove", "setdefault", "sort",   "update", "add", "discard"};

Value missing_attribute(const Value& object, std::string_view name) {
  const bool changes =
      std::find(kChangingMethods.begin(), kChangingMethods.end(), name) != kChangingMethods.end();
  return Value::undefined(fmt::format("a {} has no attribute '{}'{}", object.type_name(),
                                      core::printable(name),
                                      changes ? " (templates cannot change values)" : ""));
}

Value neighbour(const Value* item, std::string_view which) {
  return item != nullptr ? *item : Value::undefined(fmt::format("there is no {} item", which));
}

std::optional<Value> loop_attribute(Loop& loop, std::string_view name) {
  const auto number = [](std::int64_t value) { return Value::integer(value); };
  if (name == "index") {
    return number(loop.index0() + 1);
  }
  if (name == "index0") {
    return number(loop.index0());
  }
  if (name == "first") {
    return Value::boolean(loop.index0() == 0);
  }
  if (name == "last") {
    return Value::boolean(loop.is_last());
  }
  if (name == "length") {
    return number(loop.length());
  }
  if (name == "revindex") {
    return number(loop.length() - loop.index0());
  }
  if (name == "revindex0") {
    return number(loop.length() - loop.index0() - 1);
  }
  if (name == "previtem") {
    return neighbour(loop.previous(), "previous");
  }
  if (name == "nextitem") {
    return neighbour(loop.next(), "next");
  }
  if (name == "depth" || name == "depth0") {
    return number(name == "depth" ? 1 : 0);
  }
  return std::nullopt;
}

// What Python's getattr finds.
std::optional<Value> own_attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kLoop)) {
    if (auto value = loop_attribute(object.loop(), name)) {
      return value;
    }
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

struct Bounds {
  Int start = 0;
  Int stop = 0;
  Int step = 1;
};

Int slice_number(Runtime& runtime, const Value& value, Int fallback) {
  if (value.is_none()) {
    return fallback;
  }
  require_defined(runtime, value);
  runtime.require(value.is_integral(), "a slice needs integers, got a {}", value.type_name());
  return std::clamp<Int>(value.integral(), INT64_MIN, INT64_MAX);
}

// Python's slice.indices(length).
Bounds slice_bounds(Runtime& runtime, std::int64_t length, const Value& start, const Value& stop,
                    const Value& step) {
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

std::int64_t slice_size(const Bounds& b) {
  if (b.step > 0) {
    return b.start < b.stop ? static_cast<std::int64_t>((b.stop - b.start - 1) / b.step + 1) : 0;
  }
  return b.stop < b.start ? static_cast<std::int64_t>((b.start - b.stop - 1) / -b.step + 1) : 0;
}

Value slice_text(Runtime& runtime, const Value& text, const Bounds& bounds, std::int64_t size) {
  const std::string_view bytes = text.bytes();
  if (bounds.step == 1 && size > 0) {
    const std::size_t from =
        characters::byte_of_code_point(bytes, static_cast<std::int64_t>(bounds.start));
    const std::size_t length = characters::byte_of_code_point(bytes.substr(from), size);
    return make_text(runtime, bytes.substr(from, length), text.is_markup());
  }
  runtime.step(static_cast<std::int64_t>(bytes.size()));
  const auto characters = split_code_points(bytes);
  TextBuilder out(runtime);
  for (std::int64_t i = 0; i < size; ++i) {
    out.add(characters[static_cast<std::size_t>(bounds.start + bounds.step * i)]);
  }
  return out.value(text.is_markup());
}

Value slice_range(const Range& range, const Bounds& bounds, std::int64_t size) {
  // Beyond the ends of a range its numbers still exist, which is where `stop` may point.
  const auto at = [&](Int index) {
    return static_cast<std::int64_t>(
        std::clamp<Int>(Int{range.start} + Int{range.step} * index, INT64_MIN, INT64_MAX));
  };
  const auto step =
      static_cast<std::int64_t>(std::clamp<Int>(range.step * bounds.step, INT64_MIN, INT64_MAX));
  return Value(Value::Storage(Range{at(bounds.start), at(bounds.stop), step, size}));
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
  if (object.is(Kind::kDict)) {
    if (const Value* value = object.dict()->find(name)) {
      return *value;
    }
  }
  return missing_attribute(object, name);
}

Value item_of(Runtime& runtime, const Value& object, const Value& key) {
  require_defined(runtime, object);
  if (object.is(Kind::kDict) && Dict::can_be_key(key)) {
    if (const Value* value = object.dict()->find(key)) {
      return *value;
    }
  }
  if (key.is_integral()) {
    if (auto value = item_at(runtime, object, key.integral())) {
      return *std::move(value);
    }
    return Value::undefined(
        fmt::format("a {} has no element {}", object.type_name(), key.integral()));
  }
  if (!key.is_string()) {
    return Value::undefined(
        fmt::format("a {} has no element of type {}", object.type_name(), key.type_name()));
  }
  if (auto value = own_attribute(object, key.bytes())) {
    return *std::move(value);
  }
  return missing_attribute(object, key.bytes());
}

Value slice_of(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
               const Value& step) {
  require_defined(runtime, object);
  const bool sliceable = object.is_string() || object.is(Kind::kList) || object.is(Kind::kTuple) ||
                         object.is(Kind::kRange);
  runtime.require(sliceable, "a {} cannot be sliced", object.type_name());
  const std::int64_t length = *length_of(runtime, object);
  const Bounds bounds = slice_bounds(runtime, length, start, stop, step);
  const std::int64_t size = slice_size(bounds);
  if (object.is_string()) {
    return slice_text(runtime, object, bounds, size);
  }
  if (object.is(Kind::kRange)) {
    return slice_range(object.range(), bounds, size);
  }
  runtime.grow(static_cast<std::size_t>(size) * sizeof(Value));
  Items items;
  items.reserve(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    items.push_back(object.items()[static_cast<std::size_t>(bounds.start + bounds.step * i)]);
  }
  return object.is(Kind::kList) ? make_list(runtime, std::move(items))
                                : make_tuple(runtime, std::move(items));
}

Value follow_path(Runtime& runtime, const Value& object, const Value& path) {
  if (!path.is_string()) {
    return path.is_none() ? object : item_of(runtime, object, path);
  }
  Value value = object;
  std::string_view rest = path.bytes();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool number = !part.empty() && part.size() < 19 &&
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    value =
        item_of(runtime, value,
                number ? Value::integer(std::stoll(std::string(part))) : make_text(runtime, part));
    if (dot == std::string_view::npos) {
      return value;
    }
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace nibble::jinja
