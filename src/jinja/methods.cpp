#include "jinja/methods.h"

#include <array>

#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/loop.h"
#include "jinja/make.h"

namespace nibble::jinja {
namespace {

Value view_of(const Call& call, DictView::Part part) {
  return Value(Value::Storage(DictView{part, call.self().dict()}));
}

Value dict_keys(Call& call) {
  return view_of(call, DictView::Part::kKeys);
}

Value dict_values(Call& call) {
  return view_of(call, DictView::Part::kValues);
}

Value dict_items(Call& call) {
  return view_of(call, DictView::Part::kItems);
}

Value dict_get(Call& call) {
  if (!Dict::can_be_key(call.at(0)) && !call.at(0).is_undefined()) {
    call.fail("a {} cannot be a key of a dict", call.at(0).type_name());
  }
  const Value* found = call.at(0).is_undefined() ? nullptr : call.self().dict()->find(call.at(0));
  if (found != nullptr) {
    return *found;
  }
  return call.find(1) != nullptr ? call.at(1) : Value();
}

Value dict_copy(Call& call) {
  return call.self();
}

Value sequence_count(Call& call) {
  Int count = 0;
  for (const Value& item : call.self().items()) {
    count += equals(call.runtime(), item, call.at(0)) ? 1 : 0;
  }
  return Value::integer(count);
}

Value sequence_index(Call& call) {
  const Items& items = call.self().items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equals(call.runtime(), items[i], call.at(0))) {
      return Value::integer(static_cast<Int>(i));
    }
  }
  call.fail("the value is not in the {}", call.self().type_name());
}

Value sequence_copy(Call& call) {
  return call.self();
}

Value loop_cycle(Call& call) {
  const Items& choices = call.arguments().positional;
  if (choices.empty()) {
    call.fail("needs values to cycle through");
  }
  const auto index = static_cast<std::size_t>(call.self().loop().index0());
  return choices[index % choices.size()];
}

constexpr std::array<Builtin, 5> kDictMethods = {{
    {"copy", dict_copy, 0, {}},
    {"get", dict_get, 1, {"_key", "_default"}},
    {"items", dict_items, 0, {}},
    {"keys", dict_keys, 0, {}},
    {"values", dict_values, 0, {}},
}};

constexpr std::array<Builtin, 3> kSequenceMethods = {{
    {"copy", sequence_copy, 0, {}},
    {"count", sequence_count, 1, {"_value"}},
    {"index", sequence_index, 1, {"_value"}},
}};

constexpr std::array<Builtin, 1> kLoopMethods = {{
    {"cycle", loop_cycle, kVariadic, {}},
}};

const Builtin* find_text_method(std::string_view name) {
  const Builtin* method = find_builtin(text_methods(), name);
  return method != nullptr ? method : find_builtin(character_methods(), name);
}

}  // namespace

const Builtin* find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::kString:
      return find_text_method(name);
    case Kind::kDict:
      return find_builtin(kDictMethods, name);
    case Kind::kList:
    case Kind::kTuple:
      return find_builtin(kSequenceMethods, name);
    case Kind::kLoop:
      return find_builtin(kLoopMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace nibble::jinja
