#include <algorithm>
#include <array>

#include "jinja/callable.h"
#include "jinja/make.h"

// Where names of filters and methods are looked up.
namespace nibble::jinja {
namespace {

template <bool kKeys, bool kValues>
Value parts_of_dict(Call& call) {
  Items items;
  for (const auto& [key, value] : call.self().dict().entries()) {
    items.push_back(kKeys && kValues
                        ? make_sequence(call.runtime(), {key, value}, Sequence::Form::kTuple)
                    : kKeys ? key
                            : value);
  }
  return make_sequence(call.runtime(), std::move(items), Sequence::Form::kView);
}

Value dict_get(Call& call) {
  const Value* found =
      call.at(0).is_string() ? call.self().dict().find(call.at(0).bytes()) : nullptr;
  return found != nullptr ? *found : call.find(1) != nullptr ? call.at(1) : Value();
}

constexpr std::array<Builtin, 4> kDictMethods = {{
    {"get", dict_get, 1, {"_key", "_default"}},
    {"items", parts_of_dict<true, true>, 0, {}},
    {"keys", parts_of_dict<true, false>, 0, {}},
    {"values", parts_of_dict<false, true>, 0, {}},
}};

}  // namespace

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto at = std::find_if(table.begin(), table.end(),
                               [&](const Builtin& builtin) { return builtin.name == name; });
  return at == table.end() ? nullptr : &*at;
}

const Builtin* find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), sequence_filters(), selection_filters(), value_filters()}) {
    if (const Builtin* filter = find_builtin(table, name)) {
      return filter;
    }
  }
  return nullptr;
}

const Builtin* find_method(const Value& self, std::string_view name) {
  return self.is_string()       ? find_builtin(text_methods(), name)
         : self.is(Kind::kDict) ? find_builtin(kDictMethods, name)
                                : nullptr;
}

}  // namespace nibble::jinja
