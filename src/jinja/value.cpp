#include "jinja/value.h"

#include <algorithm>
#include <array>

#include "jinja/callable.h"
#include "jinja/loop.h"

namespace nibble::jinja {

Value Value::undefined(std::string why) {
  return Value(Storage(Undefined{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::text(std::string bytes) {
  return Value(Storage(std::make_shared<const std::string>(std::move(bytes))));
}

double Value::number() const {
  return is(Kind::kFloat) ? std::get<double>(storage_) : static_cast<double>(integral());
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kSequence:
      return sequence().depth;
    case Kind::kDict:
      return dict().depth();
    case Kind::kFunction:
      return 1 + function().self.depth();
    case Kind::kLoop:
      return loop().depth();
    default:
      return 0;
  }
}

std::string_view Value::type_name() const {
  constexpr std::array<std::string_view, 11> kNames = {"Undefined", "NoneType", "bool", "int",
                                                       "float",     "str",      "list", "dict",
                                                       "namespace", "function", "loop"};
  constexpr std::array<std::string_view, 5> kForms = {"list", "tuple", "range", "dict view",
                                                      "generator"};
  return is(Kind::kSequence) ? kForms[static_cast<std::size_t>(sequence().form)]
                             : kNames[static_cast<std::size_t>(kind())];
}

const Value* Dict::find(std::string_view key) const {
  const auto at = positions_.find(key);
  return at == positions_.end() ? nullptr : &entries_[at->second].value;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max(depth_, 1 + value.depth());
  const auto [at, added] = positions_.try_emplace(key.bytes(), entries_.size());
  if (added) {
    entries_.push_back({std::move(key), std::move(value)});
  } else {
    entries_[at->second].value = std::move(value);
  }
}

}  // namespace nibble::jinja
