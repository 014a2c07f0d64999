#include "jinja/value.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "jinja/callable.h"
#include "jinja/loop.h"

namespace nibble::jinja {
namespace {

constexpr double kExactLimit = 1e38;  // doubles below this convert to Int

// One spelling for all keys that are equal: 1, 1.0 and true.
std::string spell_key(const Value& key) {
  if (key.is_none()) {
    return "None";
  }
  const double number = key.number();
  if (key.is_integral() || (std::floor(number) == number && std::fabs(number) < kExactLimit)) {
    return fmt::format("{}", key.is_integral() ? key.integral() : static_cast<Int>(number));
  }
  return fmt::format("{:a}", number);
}

}  // namespace

Value Value::undefined(std::string why) {
  return Value(Storage(Undefined{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::text(std::string bytes, bool markup) {
  return Value(Storage(std::make_shared<const Text>(Text{std::move(bytes), markup})));
}

bool Value::is_number() const {
  return is_integral() || is(Kind::kFloat);
}

double Value::number() const {
  return is(Kind::kFloat) ? std::get<double>(storage_) : static_cast<double>(integral());
}

const Items& Value::items() const {
  return is(Kind::kList) ? std::get<List>(storage_).data->items
                         : std::get<Tuple>(storage_).data->items;
}

const std::shared_ptr<const Dict>& Value::dict() const {
  return std::get<std::shared_ptr<const Dict>>(storage_);
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kList:
      return std::get<List>(storage_).data->depth;
    case Kind::kTuple:
      return std::get<Tuple>(storage_).data->depth;
    case Kind::kDict:
      return dict()->depth();
    case Kind::kDictView:
      return 1 + view().dict->depth();
    case Kind::kGenerator:
      return generator().depth;
    case Kind::kFunction:
      return 1 + function().self.depth();
    case Kind::kLoop:
      return loop().depth();
    default:
      return 0;
  }
}

bool Value::same_object(const Value& other) const {
  if (kind() != other.kind()) {
    return false;
  }
  switch (kind()) {
    case Kind::kUndefined:
      return &why() == &other.why();
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return integral() == other.integral();
    case Kind::kFloat:
      return number() == other.number();
    case Kind::kString:
      return &bytes() == &other.bytes();
    case Kind::kList:
    case Kind::kTuple:
      return &items() == &other.items();
    case Kind::kDict:
      return dict() == other.dict();
    case Kind::kGenerator:
      return &generator() == &other.generator();
    case Kind::kNamespace:
      return &space() == &other.space();
    case Kind::kFunction:
      return &function() == &other.function();
    case Kind::kLoop:
      return &loop() == &other.loop();
    case Kind::kDictView:
    case Kind::kRange:
      return false;
  }
  return false;
}

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kDictView:
      return "dict view";
    case Kind::kRange:
      return "range";
    case Kind::kGenerator:
      return "generator";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "loop";
  }
  return "value";
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.integral() == b.integral();
  }
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) {
    return a.number() == b.number();
  }
  const double real = a.is(Kind::kFloat) ? a.number() : b.number();
  const Int integer = a.is(Kind::kFloat) ? b.integral() : a.integral();
  return std::floor(real) == real && std::fabs(real) < kExactLimit &&
         static_cast<Int>(real) == integer;
}

bool Dict::can_be_key(const Value& value) {
  return value.is_string() || value.is_number() || value.is_none();
}

const Value* Dict::find(std::string_view key) const {
  const auto at = strings_.find(key);
  return at == strings_.end() ? nullptr : &entries_[static_cast<std::size_t>(at->second)].value;
}

const Value* Dict::find(const Value& key) const {
  const std::int64_t index = index_of(key);
  return index < 0 ? nullptr : &entries_[static_cast<std::size_t>(index)].value;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max(depth_, 1 + value.depth());
  const std::int64_t index = index_of(key);
  if (index >= 0) {
    entries_[static_cast<std::size_t>(index)].value = std::move(value);
    return;
  }
  const auto position = static_cast<std::int64_t>(entries_.size());
  if (key.is_string()) {
    strings_.emplace(key.bytes(), position);
  } else {
    others_.emplace(spell_key(key), position);
  }
  entries_.push_back({std::move(key), std::move(value)});
}

std::int64_t Dict::index_of(const Value& key) const {
  if (key.is_string()) {
    const auto at = strings_.find(key.bytes());
    return at == strings_.end() ? -1 : at->second;
  }
  const auto at = others_.find(spell_key(key));
  return at == others_.end() ? -1 : at->second;
}

}  // namespace nibble::jinja
